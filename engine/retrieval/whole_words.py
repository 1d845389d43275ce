"""The words by which a question asks for all of a document, and those that may stand beside them, in five languages.

All in lower case. Any other word is assumed to be what the question is about, so that it asks for a part.
"""

from __future__ import annotations

import re


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)")


_ABOUT = r"what(?:['’]?s|\s+is)(?=\s+(?:.*\s)?about$)"
_KIND_OF_FILE = r"(?:document|file|pdf|text)"
ASKS_GIST = _any_of(
    r"summar(?:y|ies|i[sz]e[sd]?|i[sz]ing|i[sz]ation)",
    r"sum(?=\s(?:.*\s)?up\b)|overview|outline|gist|synopsis|recap|tl;?dr|takeaways",
    r"(?:key|main|most\s+important|important|central|essential|core|major)\s+"
    r"(?:points?|ideas?|takeaways?|findings?|messages?|arguments?|facts?|topics?|themes?|insights?|conclusions?)",
    _ABOUT,
    rf"what(?:['’]?s|\s+is)\s+in(?=\s+(?:\w+\s+)?{_KIND_OF_FILE}$)",
    rf"what\s+does\s+(?:(?:this|the|my)\s+)?{_KIND_OF_FILE}\s+(?:say|cover|contain|discuss|describe)$",
    rf"(?:explain|describe|tell\s+me\s+about)(?=\s+(?:\w+\s+){{0,2}}{_KIND_OF_FILE}\b)",
    # German
    r"zusammenfass\w*|zusammenzufassen|zusammengefasst|fass(?:e|en|t)?(?=\s.*\bzusammen\b)",
    r"überblick|übersicht|inhaltsangabe|gliederung|(?:kern|haupt)(?:punkte?n?|aussagen?|themen|thesen|gedanken|ideen)",
    r"(?:wichtigste|zentrale|wesentliche)n?\s+"
    r"(?:punkte?n?|aussagen?|themen|thesen|inhalte?n?|erkenntnisse?n?|ergebnisse?n?)",
    r"(?:worum|um\s+was)\s+geht(?:['’]?s|\s+es)|wovon\s+handelt|was\s+steht\s+in",
    r"erkläre?(?=\s+(?:\w+\s+){0,2}(?:dokument|datei|text)\b)",
    # Spanish
    r"resum(?:en|e|ir|a|ido)|resúm[ea]\w*|resumirme|síntesis|sintetiza\w*|esquema|visión\s+general",
    r"(?:puntos|ideas|temas|conclusiones|mensajes)\s+(?:más\s+)?(?:clave|principales|importantes|centrales)",
    r"de\s+qué\s+(?:se\s+)?(?:trata|va|habla)",
    # French
    r"résum(?:é|és|e|er|ez|es)|synthèse|synthétis\w*|vue\s+d['’]ensemble|aperçu|grandes\s+lignes",
    r"(?:points|idées|thèmes|messages|conclusions)\s+(?:les\s+plus\s+)?"
    r"(?:clés?|principaux|principales|essentiel(?:le)?s|importante?s)",
    r"(?:principaux|principales)\s+(?:points|idées|thèmes|messages|conclusions)",
    r"de\s+quoi\s+(?:parle|traite|s['’]agit(?:-il)?|il\s+s['’]agit)",
)

_UP_TO = r"(?:[\s-]+(?!(?:{all})(?!\w))\w+){{0,3}}[\s-]+(?:{all})"
_EVERY = {
    r"list|name|enumerate|extract|collect|find|show|give|identify|tell|write\s+down|what\s+are": (
        r"(?:all|every|each)(?!\s+(?:about|of\s+(?:it|this))\b)"
    ),
    r"liste|nenne?|zähle?|zeige?|finde?|gib|suche?|extrahiere|notiere": r"alle[ns]?|sämtliche[ns]?|jede[nrs]?",
    r"lista|enumera|nombra|dime|dame|muestra|encuentra|extrae|busca|menciona|haz": r"tod[oa]s|cada",
    r"(?:liste|énumère|nomme|cite|donne|trouve|montre|relève|recense)[rz]?|extrais": r"tous|toutes|chaque",
}
ASKS_EACH = re.compile(
    "|".join(
        (
            _any_of(*(rf"(?:{verb}){_UP_TO.format(all=every)}" for verb, every in _EVERY.items())).pattern,
            r"(?:列出|找出|列举|列舉|提取|罗列|给出).{0,4}?(?:所有|全部|每一?[个個条條项項])",
        )
    )
)

_NUMBER = (
    r"(?:\d+|one|two|three|four|five|six|ten|a\s+few|few|an?|zwei|drei|vier|fünf|zehn|eine[mnr]?|ein\s+paar|wenigen"
    r"|dos|tres|cuatro|cinco|diez|un[ao]?s?|pocas|une|deux|trois|quatre|cinq|dix|quelques)"
)
_UNIT = (
    r"(?:sentences?|words?|paragraphs?|lines?|bullet\s+points?|bullets?|sätzen?|satz|wörtern|worten|absätzen|absatz"
    r"|zeilen|stichpunkten|frases?|palabras|párrafos?|líneas|phrases?|mots|paragraphes?|lignes)"
)
# Requests about length, form and audience.
SHAPE = _any_of(
    r"(?:(?:in|with|of|as|auf|mit|als|en|con|avec)\s+)?(?:(?:a|about|only|just|at\s+most|höchstens|maximal|etwa)\s+)?"
    rf"{_NUMBER}[\s-]+(?:(?:short|brief|kurzen)\s+)?{_UNIT}",
    rf"(?:in|on|auf|en|sur)\s+{_NUMBER}\s+(?:pages?|points?|seiten?|punkten|páginas?|puntos)",
    r"(?:of\s+|von\s+|de\s+)?(?:each|every|all(?:\s+the)?|jede[nsm]?|alle[nr]?|cada|tod[oa]s\s+l[oa]s|chaque)\s+"
    r"(?:chapters?|sections?|parts?|pages?|kapitels?|abschnitte?s?|teile?s?|capítulos?|secci[oó]n(?:es)?|chapitres?)",
    r"\d+(?=\s+(?:key|main|most|important|wichtigste\w*|zentrale\w*|puntos|points|ideas|idées|takeaways)\b)",
    r"(?:in|as|with|using)\s+(?:bullets|bullet\s+points|(?:simple|plain|easy|clear)\s+(?:words|terms|language))",
    r"in\s+(?:stichpunkten|stichworten|einfacher\s+sprache|(?:einfachen|eigenen)\s+worten)",
    r"(?:for|für|para|pour)\s+(?:my|our|an?|meine\w?|unsere\w?|eine\w?|mis?|nuestr[oa]s?|un[ea]?|mon|ma|mes|notre|nos)"
    r"\s+\w+(?:\s+\w+){0,2}$",
)

# Requests about the focus: the whole document is read, unless the focus is a part.
FOCUS = re.compile(
    r"(?<!\w)(?:"
    r"with\s+(?:(?:an?|special|particular|strong|clear|main)\s+)*(?:focus|emphasis|attention)\s+(?:on|upon|to)"
    r"|(?:(?:and|by|while)\s+)?(?:focuss?(?:ing|ed)|concentrating|paying\s+(?:\w+\s+)?attention)\s+(?:\w+ly\s+)?(?:on|to)"
    r"|and\s+(?:focus|concentrate)\s+(?:\w+ly\s+)?on"
    r"|(?:(?:and|by|while)\s+)?(?:highlight|stress|emphasi[sz])ing|and\s+(?:highlight|stress|emphasi[sz]e)"
    r"|(?:und\s+)?(?:mit|lege?)\s+(?:\w+\s+){0,2}?(?:fokus|schwerpunkt|augenmerk|blick|nachdruck|betonung)\s+(?:auf|der|von)"
    r"|(?:und\s+)?konzentriere?\s+dich\s+(?:dabei\s+)?auf"
    r"|(?:y\s+)?(?:centrándo(?:te|se)|enfocándo(?:te|se)|céntrate|enfócate|con\s+(?:\w+\s+)?(?:énfasis|atención)|haciendo\s+"
    r"hincapié)\s+(?:en|a)"
    r"|(?:et\s+)?(?:en\s+)?(?:(?:mettant|mets)\s+l['’]accent|(?:te|se|vous)\s+concentrant|insist(?:e|ant))\s+sur"
    r"|(?<=[,;]\s)(?:especially|particularly|in\s+particular|above\s+all|mainly|insbesondere|besonders|vor\s+allem"
    r"|sobre\s+todo|especialmente|en\s+particular|surtout|notamment|en\s+particulier)"
    r")\s+(?P<on>.+?)(?=\s+zusammen(?:fassen)?$|$)"
)
CHINESE_FOCUS = re.compile(
    # "重点是什么？" asks for the main points, while "重点关注风险" names the focus.
    r"[,，;；、\s]*(?:(?:并|並|请|請)?(?:(?:重点|重點)(?!(?:内容|內容)?(?:是|有|[讲講说說](?:了|的是)?)?些?(?:什[么麼]|哪些|哪几点|哪幾點|什么内容)?[?？。]?\s*$)"
    r"|着重|著重|侧重|側重)|(?:特别|特別|尤其)(?:是|关注|關注))(?P<on>.+)$"
)

# Words for parts of a document.
_PARTS = """
    clause clauses section sections chapter chapters paragraph paragraphs part parts page pages table tables figure
    appendix annex item items point points passage passages slide sheet row column footnote introduction conclusion
    beginning end half question answer
    klausel klauseln abschnitt abschnitte kapitel absatz absätze teil teile seite seiten tabelle abbildung anhang
    anlage punkt punkte stelle folie zeile spalte fußnote einleitung fazit schluss anfang ende hälfte paragraf frage
    cláusula cláusulas sección secciones capítulo capítulos párrafo parte partes página páginas tabla figura anexo
    punto puntos diapositiva fila columna introducción conclusión principio mitad pregunta
    chapitre chapitres paragraphe partie parties tableau annexe pièce ligne colonne début fin moitié
"""
PARTS = frozenset(_PARTS.split())
# Any noun after "this" may be the document: "this thesis"; not after "the", because "the position" may be a job.
POINTED_AT = re.compile(
    r"(?<!\w)(?:this|diese[mnrs]?|est[ea]|cet(?:te)?|ce)\s+(?!(?:about|on|of|über|zu|sobre|de|sur)\b)"
    r"(?P<noun>[^\W\d_]+(?:\s+[^\W\d_]+)?)"
    r"(?=\s*(?:$|[,;]|\b(?:about|in|as|with|for|please|auf|als|mit|für|bitte|en|con|para|por|avec|pour)\b))"
)
_KNOWN = """
    a an the this that these it its of in on from for to with and as about all whole entire full complete everything
    me us you i we my our your can could would will please kindly need want like have let help give provide write
    create make produce generate prepare get tell show read what is are s up here short brief briefly concise quick
    quickly detailed detail thorough comprehensive long simple plain good executive structured bullet bulleted list
    form format again but shorter longer thing author english german spanish french chinese only just now one two
    three four five six seven eight ten
    document documents doc file files pdf text paper report article book ebook contract agreement lease letter email
    mail memo notes minutes transcript presentation deck slides manual guide handbook thesis dissertation essay story
    novel plot study policy proposal brochure content contents material attachment

    bitte mir uns kannst könntest können könnten würdest sie du ihr ich wir möchte will brauche hätte gern gerne gib
    geben gebe schreib schreibe erstelle erstell erstellen mach mache machen verfasse ein eine einen einer eines einem
    der die das dem den des dies dieses diese dieser diesen diesem von vom über zu zum zur im auf aus für und als mit
    was ist sind es welche lauten nenne nenn zusammen kurz kurze kurzen knapp knappe ausführlich ausführliche
    detailliert detaillierte ganze ganzen ganzes gesamte gesamten gesamter komplett komplette alles einfach mal hier
    darin deutsch englisch spanisch französisch meine meinen meiner meines mein zwei drei vier fünf zehn
    dokument dokuments dokumentes datei texts textes bericht berichts vertrag vertrags mietvertrag brief briefs artikel
    artikels buch buches buchs studie protokoll protokolls arbeit aufsatz präsentation folien inhalt inhalts handbuch
    anleitung schreiben skript notizen unterlagen

    por favor puedes podrías podría puede haz hazme dame dar hacer escribe crea prepara necesito quiero quisiera un una
    el la los las lo del en sobre este esta esto cuáles cuales son qué que y con para al mi breve brevemente corto corta
    detallado detallada completo completa todo toda entero español inglés alemán francés dos tres cuatro cinco diez
    documento archivo fichero texto informe contrato libro artículo carta correo contenido presentación

    il te vous plaît plait svp peux pouvez pourrais pourriez tu moi nous fais fait faire faites donne donner donnez
    écris écrire rédige le les l de du d ce cet cette ceci quels quelles sont est quoi dans sur et à avec pour mon ma
    mes bref brève court courte brièvement détaillé complet complète tout toute entier français anglais allemand
    espagnol deux trois quatre cinq dix fichier texte rapport contrat livre lettre contenu
"""
KNOWN = frozenset(_KNOWN.split())

CHINESE_GIST = re.compile(
    r"总结|總結|概括|摘要|概述|概要|归纳|歸納|要点|要點|重点|重點|主要内容|主要內容|大意|提纲|大纲|大綱"
    r"|(?:主要|核心)(?:观点|觀點|思想)|[讲講说說](?:了|的是)?些?什[么麼]|关于什么|關於什麼"
)
CHINESE_KNOWN = re.compile(
    r"document|请|請|帮我|幫我|帮忙|给我|給我|为我|一下|[这這][个個份篇本]?|[该該本此]|文件|文档|文檔|报告|報告|文章|合同"
    r"|论文|論文|[书書]|资料|資料|内容|內容|全文|整[个個份篇本]?|主要|简要|簡要|简单|簡單|简短|简洁|详细|用|中文|英文"
    r"|[一二三四五六七八九十\d]+[句个個段条條][话話]?|一份|[个個份篇]|写|寫|做|生成|列出|的|是|什么|什麼|有?哪些|了|里|中|吗|呢|它|[\s\W]"
)
