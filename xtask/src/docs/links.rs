//! Checks links of Markdown pages, without network access.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::run::workspace_root;

/// Pages outside of docs/.
pub(super) const BESIDE: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];

/// A link in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link<'a> {
    /// Target of the link.
    target: &'a str,
    /// Line number, from 1.
    line: usize,
}

/// Checks all relative links and anchors of the documentation.
///
/// # Errors
/// Names the links without a target, or a page that cannot be read.
pub(crate) fn check() -> Result<()> {
    let root = workspace_root();
    let mut texts = BTreeMap::new();
    for page in pages(&root)? {
        let text = fs::read_to_string(root.join(&page))
            .with_context(|| format!("cannot read {}", page.display()))?;
        texts.insert(page, text);
    }
    let anchors: BTreeMap<&PathBuf, BTreeSet<String>> =
        texts.iter().map(|(page, text)| (page, anchors(text))).collect();
    let mut complaints = Vec::new();
    for (page, text) in &texts {
        for Link { target, line, .. } in relative(text) {
            let (path, anchor) =
                target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let file = if path.is_empty() { page.clone() } else { resolve(page, path) };
            let place = format!("{}:{line}: {target}", page.display());
            if !root.join(&file).exists() {
                complaints.push(format!("{place}: no such file"));
            } else if let (Some(anchor), Some(known)) = (anchor, anchors.get(&file))
                && !known.contains(anchor)
            {
                complaints.push(format!("{place}: {} has no such heading", file.display()));
            }
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("{} links lead nowhere:\n  {}", complaints.len(), complaints.join("\n  "))
}

/// The pages, relative to the root of the repository.
fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages: Vec<PathBuf> = BESIDE.iter().map(PathBuf::from).collect();
    for entry in fs::read_dir(root.join("docs")).context("cannot read docs/")? {
        let name = PathBuf::from(entry.context("cannot read docs/")?.file_name());
        if name.extension().is_some_and(|end| end == "md") {
            pages.push(Path::new("docs").join(name));
        }
    }
    Ok(pages)
}

/// The target file of a link in a page, relative to the root like the page.
pub(super) fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Targets of the links of a text, without external ones.
pub(super) fn targets(text: &str) -> impl Iterator<Item = &str> {
    relative(text).map(|link| link.target)
}

/// Links of a text to other files or to its own headings.
fn relative(text: &str) -> impl Iterator<Item = Link<'_>> {
    links(text).into_iter().filter(|link| {
        let is_elsewhere = link.target.contains("://") || link.target.starts_with("mailto:");
        !is_elsewhere && !link.target.is_empty()
    })
}

/// All inline links and images, `[text](target)`, outside code.
fn links(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut from = 0;
        while let Some(open) = line.get(from..).and_then(|rest| rest.find("](")).map(|open| from + open + 2) {
            let Some(length) = line.get(open..).and_then(|rest| rest.find(')')) else { break };
            let target = line.get(open..open + length).unwrap_or_default();
            if !is_code(line, open) {
                // A title may follow the target.
                let target = target.split(' ').next().unwrap_or_default();
                found.push(Link { target, line: number });
            }
            from = open + length;
        }
    }
    found
}

/// True if a position of a line is inside `code`.
fn is_code(line: &str, at: usize) -> bool {
    line.get(..at).is_some_and(|before| before.matches('`').count() % 2 == 1)
}

/// The lines outside code blocks, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((number + 1, line)),
            _ => {}
        }
        None
    })
}

/// The anchors of a page: those of its headings, and explicit ones.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let level = line.chars().take_while(|c| *c == '#').count();
        if (1..=6).contains(&level) && line.chars().nth(level) == Some(' ') {
            let slug = slug(line.get(level..).unwrap_or_default());
            // Repeated headings are numbered.
            let numbered = (1..).map(|number| format!("{slug}-{number}"));
            let free = std::iter::once(slug.clone()).chain(numbered).find(|slug| !found.contains(slug));
            found.extend(free);
        }
        for mark in ["id=\"", "name=\""] {
            found
                .extend(line.split(mark).skip(1).filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
        }
    }
    found
}

/// The anchor of a heading: its words in lower case, joined with hyphens.
fn slug(heading: &str) -> String {
    let mut plain = String::new();
    // Of a link in a heading only its text counts.
    let mut rest = heading.trim();
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let kept = plain.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_the_documentation_leads_to_something() {
        check().unwrap();
    }

    #[test]
    fn links_are_found_outside_code() {
        let text = "see [a](x.md#y), ![b](c.svg) and `[no](z.md)`\n```\n[no](z.md)\n```\n[d](https://e) [f](#g \"title\")\n";
        let found: Vec<(&str, usize)> = relative(text).map(|link| (link.target, link.line)).collect();
        assert_eq!(found, [("x.md#y", 1), ("c.svg", 1), ("#g", 5)]);
    }

    #[test]
    fn headings_have_the_anchors_that_renderers_give_them() {
        let text =
            "# A file, `code` and [a link](x.md)\n## Twice\n## Twice\n```\n# no\n```\n<a id=\"own\"></a>\n";
        let expected = ["a-file-code-and-a-link", "own", "twice", "twice-1"].map(str::to_owned);
        assert_eq!(anchors(text), BTreeSet::from(expected));
    }

    #[test]
    fn links_are_relative_to_their_page() {
        assert_eq!(resolve(Path::new("docs/live.md"), "../README.md"), Path::new("README.md"));
        assert_eq!(resolve(Path::new("docs/live.md"), "tui.md"), Path::new("docs/tui.md"));
        assert_eq!(resolve(Path::new("README.md"), "./docs/dashboards"), Path::new("docs/dashboards"));
    }

    #[test]
    fn every_page_is_in_the_summary() {
        let (root, summary) = (workspace_root(), Path::new("docs/SUMMARY.md"));
        let text = fs::read_to_string(root.join(summary)).unwrap();
        let listed: Vec<PathBuf> = relative(&text).map(|link| resolve(summary, link.target)).collect();
        for page in pages(&root).unwrap() {
            assert!(
                page == summary || listed.contains(&page),
                "{} is not in docs/SUMMARY.md",
                page.display()
            );
        }
    }
}
