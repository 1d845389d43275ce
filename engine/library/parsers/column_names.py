"""What the columns of tables are called: in a table of nothing but words, its header is told by these alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

# In English, German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Polish, Turkish and Russian.
_NAMES = """
    address|age|amount|answer|author|category|city|code|color|colour|comment|company|count|country|currency|customer
    |date|day|definition|department|desc|description|email|gender|group|id|index|item|key|label|lang|language|lat|level
    |link|location|lon|mail|message|month|name|no|note|nr|num|number|order|owner|parent|path|phone|place|position|price
    |priority|product|quantity|question|rank|rating|region|remark|role|score|section|sex|size|state|status|street
    |subject|summary|surname|symbol|team|tel|telephone|term|text|time|timestamp|title|total|town|type|unit|url|user
    |username|value|version|website|weight|word|year|zip

    |adresse|alter|anmerkung|anrede|anzahl|artikel|aufgabe|autor|bedeutung|begriff|bemerkung|beruf|beschreibung|betrag
    |datum|einheit|fällig|farbe|firma|frage|geschlecht|größe|gruppe|jahr|kategorie|kommentar|kunde|land|menge|nachname
    |ort|plz|preis|projekt|rolle|sprache|stadt|straße|strasse|summe|titel|typ|uhrzeit|vorname|wert|zuständig

    |auteur|catégorie|commentaire|courriel|désignation|heure|lieu|montant|nom|numéro|pays|prénom|prix|quantité|statut
    |téléphone|ville

    |apellido|cantidad|ciudad|categoría|correo|descripción|dirección|edad|empresa|estado|fecha|nombre|número|país
    |precio|teléfono|título

    |azienda|categoria|città|cliente|cognome|descrizione|età|importo|indirizzo|nome|prezzo|quantità|reparto|ruolo
    |telefono|titolo

    |cidade|departamento|descrição|endereço|idade|morada|preço|quantidade|sobrenome|telefone

    |aantal|achternaam|adres|afdeling|bedrag|functie|klant|leeftijd|naam|omschrijving|plaats|prijs|telefoon|voornaam

    |adress|ålder|antal|avdelning|belopp|beskrivning|efternamn|förnamn|namn|pris|stad|telefon

    |cena|dział|ilość|imię|kwota|miasto|nazwa|nazwisko|opis|stanowisko|wiek

    |açıklama|adı|bölüm|fiyat|isim|miktar|soyad|soyadı|şehir|tarih|tutar|unvan

    |адрес|возраст|город|дата|должность|имя|количество|название|номер|описание|отдел|сумма|телефон|фамилия|цена
"""
# Chinese, Japanese and Korean have no spaces that would end a word.
_NAMES_WITHOUT_SPACES = """
    姓名|名称|名稱|部门|部門|职位|職位|职务|城市|地址|电话|電話|日期|时间|時間|编号|編號|数量|數量|价格|價格|金额|金額|年龄|年齡
    |性别|性別|备注|備註|状态|狀態|类别|類別|标题|標題|作者

    |氏名|名前|部署|役職|住所|日付|価格|年齢|備考|番号|担当者|フリガナ|カテゴリ

    |이름|성명|부서|직위|직책|주소|전화번호|날짜|금액|수량|가격|연령|성별|비고
"""
# These are also usual in cells ("Anna,Manager", "Bob,German"), so they tell a header only if all its names are known.
_NAMES_AND_WORDS = """
    ad|animal|assignee|book|boss|capital|cargo|chef|continent|course|data|deadline|diet|director|dish|due|element
    |employee|example|family|food|genre|habitat|hobby|ingredient|instruction|job|manager|meaning|movie|nation|office
    |plant|present|profession|publisher|recipe|room|school|species|student|supplier|task|teacher|translation|writer

    |abteilung|beispiel|fach|hauptstadt|mitarbeiter|übersetzung|verlag

    |arabic|chinese|dutch|english|french|german|greek|italian|japanese|korean|latin|polish|portuguese|russian|spanish
    |swedish|turkish|deutsch|englisch|französisch|italienisch|latein|polnisch|russisch|spanisch|türkisch
    |allemand|anglais|espagnol|français|italien|alemán|español|francés|inglés|italiano
    |francese|inglese|spagnolo|tedesco|inglês|português|duits|engels|nederlands|engelska|svenska|tyska
    |angielski|niemiecki|polski|almanca|ingilizce|türkçe|английский|немецкий|русский
"""


def _pattern(words: str) -> str:
    return "|".join(word for word in re.split(r"[|\s]+", words) if word)


# First the ways in which programs write names.
_NAME = re.compile(rf"\w_\w|[a-z][A-Z]|\b(?i:{_pattern(_NAMES)})s?\b|{_pattern(_NAMES_WITHOUT_SPACES)}")
_NAME_OR_WORD = re.compile(
    rf"{_NAME.pattern}|\b(?i:{_pattern(_NAMES_AND_WORDS)})s?\b|[中英日法德俄韩韓][文语語]|日本語|(?:한국|영|일본|중국)어"
)


def are_usual(names: Sequence[str], below: Sequence[str]) -> bool:
    """Returns whether a table's first row, above a row such as `below`, has usual names of columns."""
    if 2 * sum(bool(_NAME.search(name)) for name in names) >= len(names):
        return True
    return _may_all_be_names(names) and not _may_all_be_names([cell for cell in below if cell.strip()])


def _may_all_be_names(texts: Sequence[str]) -> bool:
    return all(_NAME_OR_WORD.search(text) for text in texts)
