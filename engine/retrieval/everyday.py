"""Everyday words: what follows "file", "document" or "folder" without being a name.

A file may be called "format.pdf" or "System.md", but a question about "the file format" does not mean it. The lists are
small on purpose: words that form a compound with these words, in English, German and Spanish, and words that continue a
sentence. A name that is in the lists must be quoted, or written with its ending.
"""

from __future__ import annotations

from engine.partitions.stop_words import STOP_WORDS

_COMPOUNDS = """
    access area art attachment attributes backup base box browser cabinet case change changes class code collection
    content contents control copy creation database date delivery description descriptor design directory document
    download draft encoding entry exchange explorer extension extensions file files filter flow folder folders format
    formats handle handler handling header hierarchy history icon id index info input language layout length level
    library limit limits link list listing locking location lock log management manager metadata model name names
    naming number object open order output owner owners page pages path paths permission permissions pointer policy
    process processing project properties reader record records recovery reference request retention review root
    rights sample scanner search security server service services set settings share sharing size sizes source state
    status storage store structure structures summary sync synchronization system systems table template templates
    text title tool tools transfer tree type types upload uploads user users version versions view viewer writer
    active current default final first given home install installation last main new next old original other parent
    personal previous public same second shared source target temp temporary third wrong working
    about also always and does exist exists here must says shows tells there where work works
"""
_GERMAN = """
    als art auch aus befindet beim bereits das dass datei dateien dem den der des die diese dieser dieses dort ein eine
    einem einen einer eines enthält enthalten er es für fehlt format gehört geht geöffnet größe gespeichert hat haben
    heißt hier ich ihr im inhalt ist kann können liegt liegen mein meine mit muss nach name namen neu öffnen oder
    ordner pfad projekt prozess rechte schließen sein sich sie sind soll speichern steht stehen struktur system text
    typ über und unter verzeichnis vom von vor war was wenn werden wie wird wir wo wurde wurden zu zum zur zugriff
"""
_SPANISH = """
    abierto activo actual acceso adjunto al archivo archivos carpeta como compartida compartido con contiene contenido
    cuando de debe del desde dice directorio documento donde el ella en es escrito está están esta este estos
    estructura existe formato fuente general ha habla hay la las los más me mi mis muestra nombre nuevo nueva o oficial
    para parece permisos personal por principal proceso proyecto público puede que qué raíz ruta se segundo ser si
    sistema sobre son su sus tamaño temporal texto tiene tipo trabajo tu un una y
"""
EVERYDAY_WORDS = STOP_WORDS.union(*(words.split() for words in (_COMPOUNDS, _GERMAN, _SPANISH)))
