// Package translate makes the computed form of one policy: its rules in order, their content, and
// the names of their groups.
//
// It knows no other object. What a policy refers to, a Resolver answers: Tiers, Namespaces, Groups,
// and the names of the groups of what selectors select. The Engine (package compute) is that
// Resolver; by what it is asked it knows what the policy uses, and what the answer depends on.
//
// A Translator keeps what policies have in common: selectors of one label, deny-all rules, contents
// of rules. It has one owner. The Check functions are its checks of single parts, for admission.
package translate
