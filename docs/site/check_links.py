#!/usr/bin/env python3
"""check_links.py SITE: every link of the site's pages leads to a file of the site, and its #part to a place in it.

Doxygen's own pages (api/) are checked for files only. Nothing may be loaded from another machine.
"""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.names, self.loaded = [], set(), []
        self.feed(path.read_text(errors="replace"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.names.update(given[key] for key in ("id", "name") if given.get(key))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        loaded = given.get("src") or (given.get("href") if tag == "link" else None)
        if loaded:
            self.loaded.append(loaded)


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in site.rglob("*.html")}
    checked, failures = 0, []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme not in ("data", "javascript"):
                    failures.append(f"{path.relative_to(site)} loads {link}")
                continue
            if not parts.path and not parts.fragment:
                continue
            checked += 1
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            ours = "api" not in path.relative_to(site).parts
            if not target.exists():
                failures.append(f"{path.relative_to(site)}: {link}: no such file")
            elif ours and parts.fragment and target in pages and parts.fragment not in pages[target].names:
                failures.append(f"{path.relative_to(site)}: {link}: no such place")
    for failure in failures[:50]:
        print(f"check_links.py: {failure}", file=sys.stderr)
    if failures or checked < 500:
        sys.exit(f"check_links.py: {len(failures)} of {checked} links lead nowhere")
    print(f"{site}: {len(pages)} pages, {checked} links, all lead somewhere")


if __name__ == "__main__":
    main()
