//! Finds every text of a set in a stream, in one pass (an Aho-Corasick automaton).
//!
//! A redactor needs two values at every byte: the length of the longest text that ends here, and how many of the last
//! bytes may be the start of a longer one. Both are stored per node, so a byte costs amortized constant time for any
//! overlap of the texts. Building takes at most one node per byte of the texts, and time linear in their total length.
//! A table of transitions per node would search faster, but would cost a kilobyte per node, and secrets come from
//! tenants.

/// A node represents a prefix of a text; node 0 is the empty prefix. Nodes are numbered level by level.
pub(super) struct Automaton {
    /// The children of node `n` are the nodes `children[n]..children[n + 1]`, ordered by byte.
    children: Vec<u32>,
    /// The last byte of each node's prefix.
    bytes: Vec<u8>,
    /// The longest proper suffix of each prefix that is a prefix itself.
    fallback: Vec<u32>,
    /// The length of the longest text that ends with each prefix, or 0.
    ends: Vec<u32>,
    /// The length of the longest suffix of each prefix that can grow into a text.
    open: Vec<u32>,
    /// The children of node 0 by byte, because most bytes of most streams are looked up there.
    first: [u32; 256],
}

/// A range of the sorted texts that share the prefix of a node.
struct Branch {
    node: u32,
    from: usize,
    to: usize,
}

impl Automaton {
    /// From texts that are sorted, distinct and not empty.
    pub(super) fn new(texts: &[Vec<u8>]) -> Self {
        let mut automaton = Self {
            children: Vec::new(),
            bytes: vec![0],
            fallback: vec![0],
            ends: vec![0],
            open: vec![0],
            first: [0; 256],
        };
        let mut level = vec![Branch { node: 0, from: 0, to: texts.len() }];
        let mut depth = 0;
        while !level.is_empty() {
            let mut next = Vec::new();
            for branch in &level {
                automaton.children.push(automaton.next_node());
                automaton.split(texts, depth, branch, &mut next);
            }
            level = next;
            depth += 1;
        }
        automaton.children.push(automaton.next_node());
        automaton
    }

    /// The cost of building and storing it.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.bytes.len()
    }

    /// The node after one more byte.
    pub(super) fn step(&self, mut node: u32, byte: u8) -> u32 {
        loop {
            if node == 0 {
                return self.first[usize::from(byte)];
            }
            if let Some(child) = self.child(node, byte) {
                return child;
            }
            node = self.fallback[node as usize];
        }
    }

    /// The length of the longest text that ends here, or 0.
    pub(super) fn ends(&self, node: u32) -> usize {
        self.ends[node as usize] as usize
    }

    /// How many of the last bytes may be the start of a text that has not ended.
    pub(super) fn open(&self, node: u32) -> usize {
        self.open[node as usize] as usize
    }

    /// Whether a text starts with this byte.
    pub(super) fn starts_with(&self, byte: u8) -> bool {
        self.first[usize::from(byte)] != 0
    }

    fn next_node(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("the length of secrets is limited")
    }

    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let node = node as usize;
        let from = self.children[node];
        let siblings = &self.bytes[from as usize..self.children[node + 1] as usize];
        let position = siblings.binary_search(&byte).ok()?;
        Some(from + u32::try_from(position).ok()?)
    }

    /// Adds the children of a node: one for each byte with which its texts continue.
    fn split(&mut self, texts: &[Vec<u8>], depth: usize, branch: &Branch, next: &mut Vec<Branch>) {
        // The texts are sorted, so the one that ends at this node is the first.
        let mut from =
            branch.from + usize::from(texts.get(branch.from).is_some_and(|text| text.len() == depth));
        while from < branch.to {
            let byte = texts[from][depth];
            let same = texts[from..branch.to].iter().take_while(|text| text[depth] == byte).count();
            let node = self.next_node();
            let is_whole = texts[from].len() == depth + 1;
            self.add(branch.node, byte, depth + 1, is_whole, same > usize::from(is_whole));
            next.push(Branch { node, from, to: from + same });
            from += same;
        }
    }

    fn add(&mut self, parent: u32, byte: u8, depth: usize, is_whole: bool, goes_on: bool) {
        let depth = u32::try_from(depth).expect("the length of secrets is limited");
        let fallback = if parent == 0 { 0 } else { self.step(self.fallback[parent as usize], byte) };
        self.ends.push(if is_whole { depth } else { self.ends[fallback as usize] });
        self.open.push(if goes_on { depth } else { self.open[fallback as usize] });
        if parent == 0 {
            self.first[usize::from(byte)] = self.next_node();
        }
        self.fallback.push(fallback);
        self.bytes.push(byte);
    }
}
