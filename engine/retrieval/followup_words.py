"""Words of a follow-up that say nothing of what it is about, in English, German, Spanish, French and Chinese.

Empty words only form a sentence; the remaining words of a question can be searched for. Words on the answer ask for the
same in another form ("shorter", "als Tabelle"). The lists are small on purpose: a word in no list is searched for.
"""

from __future__ import annotations

import re

from engine.partitions.searchable import searchable
from engine.partitions.stop_words import STOP_WORDS


def folded(text: str) -> str:
    """Folds a text as the lists below are: without accents and capitals, which many people do not type."""
    return searchable(text).casefold()


def _words(*lists: str) -> frozenset[str]:
    return frozenset(word for words in lists for word in folded(words).split())


_ENGLISH = """
    much many any some all both each other others own same such too very just only even still please tell say says said
    let lets get gets got give given want wants like need happen happens happened mean means meant know think work
    works go goes come comes take takes took one two three four five ones thing things way kind yes now then here else
    long high far often soon well first second third fourth fifth last next previous former latter above below also don
    doesn didn isn aren wasn ll re ve
"""
_GERMAN = """
    der die das den dem des ein eine einen einem einer eines kein keine keinen keiner ich du er sie es wir ihr man mich
    mir dich dir uns euch ihm ihn ihnen sein seine seiner seinem seinen seines ihre ihrer ihrem ihren ihres mein meine
    meinen meiner dein deine unser unsere dies diese dieser dieses diesem diesen jene jener jenes jenem jenen welche
    welcher welches welchen welchem wer wen wem wessen was wann wo wohin woher wie wieviel viel viele ist sind waren
    wird werden wurde wurden hat haben hatte hätte kann können könnte könntest kannst muss müssen müsste darf dürfen
    dürfte soll sollen sollte wollen mag möchte gibt geht und oder aber auch noch nur schon so dann denn doch nicht
    nichts in im ins am an auf aus bei beim mit nach seit von vom zu zum zur für gegen ohne um über unter vor durch
    hinter neben zwischen bis ab als wenn falls ob dass weil da dort hier davon dafür dazu darin daran darauf darüber
    dabei dadurch daraus danach davor dagegen damit deren dessen bitte mal genau eigentlich etwa etwas sehr selbst erste
    ersten erster erstes zweite zweiten zweiter zweites dritte dritten dritter drittes letzte letzten letzter letztes
    letztere letzteres nächste nächsten andere anderen ander beide beiden eins zwei drei vier fünf hoch lange lang oft
    weit sagen sagt sag bedeutet heißt machen macht mach gib gibst steht
"""
_SPANISH = """
    el la los las un una unos unas lo al del de a en con por para sin sobre entre hasta desde según y o u e pero si
    como cuándo dónde adónde que quién quiénes cuál cuáles cuánto cuánta cuántos cuántas es son era eran fue fueron ser
    está están estar hay ha han haber tiene tienen tener puede pueden puedes podría debe deben hace hacer haz yo tú él
    ella ellos ellas usted me te se le les nos mi mis su sus tu tus este esta esto estos estas ese esa eso esos esas
    aquel aquella aquello aquellos aquellas también tampoco muy ya aún todavía otro otra otros otras mismo misma mismos
    allí ahí aquí allá primero primera primer segundo segunda tercero tercera tercer último última favor dime decir
    dice significa pasa
"""
_FRENCH = """
    le la les un une des du de au aux à en dans avec pour par sans sur sous entre vers chez et ou mais donc si ne pas
    que qu qui quoi quand où comment combien quel quelle quels quelles est sont était étaient être a ont avoir fait
    faire fais peut peuvent peux pourrais doit doivent faut va je tu il elle on nous vous ils elles te lui leur leurs
    moi toi y mon ma mes ton ta tes son sa ses notre votre nos vos ce cet cette ces cela ça ceci celui celle ceux
    celles ci là aussi encore très même mêmes autre autres premier première deuxième second seconde troisième dernier
    dernière plaît dis dites dire veux veut
"""
EMPTY_WORDS = STOP_WORDS.union(_words(_ENGLISH, _GERMAN, _SPANISH, _FRENCH))
# Capitalised within a sentence, these are names, such as "May". English only, because German capitalises all nouns.
ENGLISH_EMPTY_WORDS = STOP_WORDS.union(_words(_ENGLISH))

_ON_ANSWER_ENGLISH = """
    shorter longer short brief briefly briefer concise conciser continue further more less detail details detailed
    elaborate expand translate translated translation table list bullet bullets point points item items summarise
    summarize summarised summarized summary rephrase rewrite reword simplify simpler simple simply plain explain
    explained explanation again repeat why thanks thank example examples sentence sentences word words paragraph
    paragraphs line lines answer step steps clarify shorten format formal informal ok okay yes no nope sure great good
    nice cool perfect correct really wrong main important most instead different differently better clearer
    clear proceed
"""
_ON_ANSWER_GERMAN = """
    kürzer länger kurz knapp knapper ausführlich ausführlicher weiter fortfahren fahre fort mehr weniger detail details
    einzelheiten übersetze übersetz übersetzen übersetzt übersetzung tabelle liste aufzählung stichpunkte stichpunkten
    stichworte stichworten punkt punkte zusammenfassen zusammenfassung fasse fass zusammen umformulieren formuliere
    formulier einfach einfacher verständlich verständlicher erkläre erklär erklären erläutere erläutern nochmal
    nochmals wiederhole wiederholen warum wieso weshalb danke dank beispiel beispiele satz sätze sätzen wort worten
    wichtig wichtigste wichtigsten
    absatz absätze antwort schritt schritte ja nein okay gut genauer anders besser klarer deutlicher
"""
_ON_ANSWER_SPANISH = """
    corto corta breve brevemente resumido largo larga continúa continuar sigue seguir más menos detalle detalles
    traduce tradúcelo traducir traducción tabla lista puntos punto resume resúmelo resumen resumir reformula reescribe
    simplifica simple sencillo sencilla explica explícalo explicar explícame explicación repite repetir gracias ejemplo
    ejemplos frase frases palabra palabras párrafo respuesta paso pasos vale mejor claro principal
    principales importante importantes
"""
_ON_ANSWER_FRENCH = """
    court courte bref brièvement longue continue continuer continuez suite plus moins détail détails détaillé traduis
    traduire traduisez traduction tableau liste points point résume résumer résumez résumé reformule réécris simplifie
    simplement explique expliquer expliquez explication répète répéter pourquoi merci exemple exemples phrase phrases
    mot mots paragraphe réponse étape étapes oui non mieux clair principal principaux important
"""
WORDS_ON_ANSWER = _words(_ON_ANSWER_ENGLISH, _ON_ANSWER_GERMAN, _ON_ANSWER_SPANISH, _ON_ANSWER_FRENCH)

# Without one of these or an interrogative, a few words are only a fragment of a sentence.
AUXILIARIES = _words(
    """
    is are was were be been am do does did has have had can could will would shall should may might must
    ist sind war waren wird werden wurde wurden hat haben kann können muss müssen darf dürfen soll sollen gibt
    means mean happens happened bedeutet heißt significa
    es son era fue está están hay tiene tienen puede pueden debe deben est sont était peut doit faut
    """
)
INTERROGATIVES = _words(
    """
    who whom whose which what when where why how wer wen wem wessen was wann wo wohin woher wie wieviel welche welcher
    welches welchen welchem warum qué cuál cuáles quién quiénes cuándo dónde cómo cuánto cuánta cuántos cuántas qui
    quoi quand où comment combien quel quelle quels quelles
    """
)
PREPOSITIONS = _words(
    """
    for in on at by with without after before during since from until under if für bei beim im am an mit ohne nach vor
    seit während ab bis wenn falls para en con sin desde hasta por si pour dans avec sans après avant depuis chez sur
    """
)

_LANGUAGES_IN_ENGLISH = (
    "english|german|french|spanish|italian|portuguese|dutch|polish|russian|turkish|chinese|japanese|korean|arabic"
)
_LANGUAGES = (
    f"{_LANGUAGES_IN_ENGLISH}|englisch|deutsch|französisch|spanisch|italienisch|portugiesisch|niederländisch|polnisch|russisch|türkisch"
    "|chinesisch|japanisch|englische|deutsche|französische|spanische|italienische"
    "|inglés|alemán|francés|español|italiano|portugués|chino|japonés|ruso"
    "|anglais|allemand|français|espagnol|italien|portugais|chinois|japonais|russe"
)
# Requests about the answer that consist of several words.
PHRASES_ON_ANSWER = re.compile(
    rf"\b(?:in|into|to|auf|ins|en|al|a)\s+(?:(?:plain|simple|easy|einfaches|einfachem)\s+)?(?:{_LANGUAGES})\b"
    r"|\b(?:go|carry)\s+on\b|\bonce\s+more\b|\botra\s+vez\b|\bsous\s+forme\b|\bpor\s+qu[eé]\b"
)

# Requests for more ("are there others in …"), which do not name what there should be more of.
FURTHER = re.compile(
    r"\b(?:(?:is|are|was|were)\s+there|any|some|gibt\s+es|hay|(?:il\s+)?y\s+en\s+a(?:-t-il)?)\s+"
    r"(?:(?:any|some|also|many|noch|auch|denn|algun[oa]s?|algún|encore|aussi)\s+)*"
    r"(?:more|others?|mehr|weitere[rns]?|andere[rns]?|m[aá]s|otr[oa]s?|d'autres|plus)"
    rf"(?!\s+in\s+(?:{_LANGUAGES_IN_ENGLISH})\b)"
    r"(?=\s+(?:in|on|at|for|from|near|outside|within|about|with|auf|für|aus|bei|mit|en|para|de|con|dans|pour|à|au"
    r"|aux|chez)\s+\w)"
)

# Questions that need the files, even if all other words are words on the answer.
SEEKS = re.compile(
    r"(?:where|when|who|whose|whom|how\s+many|wo|wann|wer|wen|wem|wessen|wie\s*viele|d[oó]nde|cu[aá]ndo|qui[eé]n(?:es)?"
    r"|cu[aá]nt[oa]s|où|quand|qui|combien)\b"
    r"|(?:what|which|list|was|welche|liste|qué|cuáles|lista|quel(?:le)?s)\b"
    r"(?:\s+\w+){0,3}?\s+(?:steps|schritte|pasos|étapes)\b"
)
SEEKS_CHINESE = re.compile(
    "哪[里裡儿兒]|什[么麼][时時]候|何[时時]|[谁誰]|多少|第[一二三四五六七八九十0-9]+[条條章节節页頁]"
)
# A numbered place in a document, or in a list of the answer.
NUMBERED = re.compile(
    r"(?:\b(?:paragraph|point|item|step|sentence|line|table|example|absatz|punkt|schritt|satz|zeile|tabelle|beispiel"
    r"|párrafo|punto|paso|frase|línea|tabla|ejemplo|paragraphe|étape|phrase|ligne|tableau|exemple)(?:s|e|n)?\s+"
    r"(?:(?:no|nr)\.?\s*|n[º°]\s*)?|§+\s*)(?P<number>\d+)|(?<![\w.])(?P<dotted>\d+(?:\.\d+)+)(?!\w)"
)

EMPTY_CHINESE = re.compile(
    "第[一二三四五六七八九十0-9]+[点點个個条條项項段句]?|最[后後]一?[点點个個条條]?|[这這那](?:[个個些里裡份种種样樣]|么|麼)?"
    "|[它他她][们們]?|前者|[后後]者|上面|以上|[刚剛]才|什[么麼]|怎[么麼](?:样|樣)?|如何|多少|多久|何[时時]|哪[里裡个個些]?"
    "|可以|一下|一[点點些]|如果|要是|[还還]有|以及|另外|[关關]于|德[语語文]|英[语語文]|中文|法[语語文]|西班牙[语語文]"
    "|回答|答案|[内內][容]|[时時][候间間]|[请請把将將能吗嗎呢吧啊了的地得是在有会會要给給我你您其几幾谁誰用成做写寫说說再更还還也都和与與或点點条條句个個段话話好对對不]"
)
ON_ANSWER_CHINESE = re.compile(
    "[短长長]一?[点點些]|[简簡]短|[简簡][洁潔]|精[简簡]|[详詳][细細]|[继繼][续續]|接[着著]|翻[译譯]|[译譯]成|[总總][结結]|概括|表格|列表"
    "|列出[来來]|[为為]什[么麼]|[为為]何|[谢謝]{2}|多[谢謝]|一遍|重[复複]|例子|[举舉]例|[换換]句|解[释釋]|[说說]明|更多|改[写寫]"
)
