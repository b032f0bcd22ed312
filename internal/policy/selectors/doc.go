// Package selectors compiles label selectors and finds what they choose.
//
// A Selector is a label selector, compiled once: its text is the canonical form, equal for equal
// meaning. A Set is a distinct set of labels, held once in a Table. A LabelIndex finds the items
// that a selector matches, a SelectorIndex the items whose selectors match a set of labels: both by
// the labels that a selector demands, so that what names other labels is not looked at. Terms are
// what a peer or appliedTo selects, with the text from which its group is named.
//
// Selectors, Sets and Terms do not change once made. Tables and indexes have one owner, and are not
// safe for concurrent use.
package selectors
