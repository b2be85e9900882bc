//! `cargo xtask docs --site`: the pages as a site, built by mdBook.
//!
//! The site has the folder structure of the repository, so that the same links work. A link to a file that is not a
//! page refers to the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::links::{self, BESIDE};
use crate::run::{run, say, step, target_dir, workspace_root};
use crate::setup;

/// Address of files that are not pages.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main");

const BOOK: &str = "[book]\ntitle = \"rocescope\"\nsrc = \"pages\"\nlanguage = \"en\"\n\n[build]\nbuild-dir = \"html\"\n\n\
                    [output.html]\ndefault-theme = \"light\"\npreferred-dark-theme = \"ayu\"\n";

/// Builds the site, and checks the links of the result.
///
/// # Errors
/// mdBook is not available, or a link has no target.
pub(crate) fn build() -> Result<()> {
    let folder = target_dir().join("site");
    step("pages of the site", || write(&workspace_root(), &folder))?;
    let mut book = setup::mdbook()?;
    step("mdBook", || run(book.arg("build").arg(&folder)))?;
    let html = folder.join("html");
    step("links of the site", || check(&html))?;
    say(&format!("the site: {}", html.join("index.html").display()));
    Ok(())
}

/// Writes the pages and images, and the order of the pages.
fn write(root: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let pages = folder.join("pages");
    fs::create_dir_all(&pages).with_context(|| format!("cannot create {}", pages.display()))?;
    fs::write(folder.join("book.toml"), BOOK).context("cannot write book.toml")?;
    let mut names: Vec<PathBuf> = BESIDE.iter().map(PathBuf::from).chain(["docs".into()]).collect();
    while let Some(name) = names.pop() {
        let (from, to) = (root.join(&name), pages.join(&name));
        if from.is_dir() {
            fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
            let entries = fs::read_dir(&from).with_context(|| format!("cannot list {}", from.display()))?;
            names.extend(entries.flatten().map(|entry| name.join(entry.file_name())));
            continue;
        }
        if name.ends_with("SUMMARY.md") {
            let text = fs::read_to_string(&from).context("cannot read docs/SUMMARY.md")?;
            fs::write(pages.join("SUMMARY.md"), order(&text)).context("cannot write SUMMARY.md")?;
        } else if name.extension().is_some_and(|end| end == "md") {
            let text =
                fs::read_to_string(&from).with_context(|| format!("cannot read {}", name.display()))?;
            let text = outward(&name, &text, root);
            fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
        } else {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", name.display()))?;
        }
    }
    Ok(())
}

/// The order of the pages, with links relative to the parent folder.
fn order(summary: &str) -> String {
    let up = summary.replace("](../", "](/");
    up.replace("](", "](docs/").replace("](docs//", "](")
}

/// A page whose links to files that are not pages refer to the repository.
fn outward(page: &Path, text: &str, root: &Path) -> String {
    let mut changed = text.to_owned();
    for target in links::targets(text) {
        let path = target.split('#').next().unwrap_or_default();
        let file = links::resolve(page, path);
        let is_page = file.starts_with("docs") && !file.ends_with("SUMMARY.md")
            || BESIDE.iter().any(|beside| file == Path::new(beside));
        if !path.is_empty() && !is_page && root.join(&file).exists() {
            let there = format!("]({REPOSITORY}/{})", file.display());
            changed = changed.replace(&format!("]({target})"), &there);
        }
    }
    changed
}

/// Checks that every relative link of the built pages has a target in the site.
fn check(html: &Path) -> Result<()> {
    let mut complaints = Vec::new();
    let mut pages = 0;
    for folder in [html.to_owned(), html.join("docs")] {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for path in entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "html"))
        {
            pages += 1;
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let dead = references(&text).filter(|target| !folder.join(target).exists());
            complaints.extend(dead.map(|target| format!("{}: {target}", path.display())));
        }
    }
    // print.html contains all pages, with links relative to their original pages.
    complaints.retain(|complaint| !complaint.contains("print.html"));
    if pages < BESIDE.len() || !complaints.is_empty() {
        bail!("{pages} pages, {} links lead nowhere:\n  {}", complaints.len(), complaints.join("\n  "));
    }
    Ok(())
}

/// Files referenced by a page.
fn references(html: &str) -> impl Iterator<Item = &str> {
    let all = ["href=\"", "src=\""].into_iter().flat_map(move |name| html.split(name).skip(1));
    let targets = all.filter_map(|rest| rest.split(['"', '#', '?']).next());
    targets.filter(|target| !target.is_empty() && !target.contains(':') && !target.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_leads_into_the_folder() {
        assert_eq!(order("[a](../README.md)\n- [b](live.md)\n"), "[a](README.md)\n- [b](docs/live.md)\n");
    }

    #[test]
    fn what_is_no_page_is_in_the_repository() {
        let root = workspace_root();
        let page = Path::new("docs/testing.md");
        let text = "[a](../fuzz/README.md) [b](live.md#x) [c](../README.md) [d](https://x.y) [e](#here)";
        let changed = outward(page, text, &root);
        assert_eq!(changed, text.replace("../fuzz/README.md", &format!("{REPOSITORY}/fuzz/README.md")));
    }

    #[test]
    fn references_are_files() {
        let html = r##"<a href="a.html#b"> <img src="c.svg"> <a href="https://x"> <a href="#y"> <script src="d.js?1">"##;
        assert_eq!(references(html).collect::<Vec<_>>(), ["a.html", "c.svg", "d.js"]);
    }
}
