"""The pages for people, read back: well-formed, with nothing from elsewhere; their figures by name."""
import re
import xml.etree.ElementTree as tree

XHTML = "{http://www.w3.org/1999/xhtml}"


class Page:
    def __init__(self, text):
        assert text.startswith("<!DOCTYPE html>\n"), text[:100]
        self.root = tree.fromstring(text)
        assert not re.search(r"<script|<link|<img|javascript:|\son\w+=", text, re.I), text
        # Only the namespace is a URL.
        assert re.findall(r"https?://[^\"' <]+", text) == ["http://www.w3.org/1999/xhtml"], text
        metas = [element.attrib for element in self.root.iter(XHTML + "meta")]
        assert any("default-src 'none'" in meta.get("content", "") for meta in metas), metas
        assert any(meta.get("name") == "viewport" for meta in metas), metas

    def all(self, name):
        return list(self.root.iter(XHTML + name))

    def text(self, element):
        return "".join(element.itertext()).strip()

    def tiles(self):
        """{label: figure} of all tiles."""
        return {self.text(element[0]): self.text(element[1]) for element in self.all("div") if element.get("class") == "tile"}

    def bars(self, title):
        """{name: number} of the bars under a title."""
        for figure in self.all("figure"):
            if self.text(figure[0]) == title:
                return {self.text(bar[0]): int(self.text(bar[1]).split(" ")[0].replace(",", "")) for bar in figure[1:]}
        raise AssertionError(f"no figure {title}")

    def columns(self, title):
        """The values of a chart's columns."""
        for figure in self.all("figure"):
            if self.text(figure[0]) == title:
                return [float(self.text(rect).rsplit(": ", 1)[1]) for rect in figure.iter(XHTML + "rect")]
        raise AssertionError(f"no chart {title}")

    def table(self, first):
        """Rows of the table whose head begins with these texts."""
        for table in self.all("table"):
            rows = [[self.text(cell) for cell in row] for row in table]
            if rows and rows[0][0] == first:
                return rows
        raise AssertionError(f"no table {first}")
