// Package policy is the vocabulary of policies: what is given (Namespaces, entities, Services,
// Tiers, groups, policies) and what it computes to (rules, groups with their members, the enforcers
// that each concerns, and the Delta between two moments). It has types and comparisons, and
// computes nothing.
//
// What computes is below it, each package from those before it alone:
//
//   - slab makes many values at a time; span counts what concerns which enforcers;
//   - selectors compiles label selectors, and finds what one matches or which match;
//   - translate makes the computed form of one policy, asking for the groups that it names;
//   - world holds entities by distinct label set, and what selectors choose of them;
//   - compute is the Engine, which keeps all of it up to date and says what changed;
//   - evaluate tells what computed policies mean for one flow of packets;
//   - admission says what a policy's author should know of it before it is stored.
//
// The computed objects mirror controlplane.antrea.io/v1beta2, with the same names, rule order and
// priorities. Values handed out (Delta, ComputedPolicy, Member) are shared and must not be
// modified; they never change and may be read from any goroutine.
package policy
