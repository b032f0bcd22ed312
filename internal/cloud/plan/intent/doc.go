// Package intent says what every interface of an account shall allow: computed policies and
// observed regions go in, permits come out, by the algebra of rules, tiers, Pass, the native tier,
// failsafe flows and modes.
//
// It owns the reading of what was observed: which groups are ours, which groups an interface
// natively belongs to, whether the record of them is trusted, which policies are in force. It also
// gives the reasons for what cannot be expressed or controlled at all. It promises that its results
// do not depend on which groups of ours exist, except for what their tags remember.
//
// It is pure. The values of one Account belong together and keep caches, so one goroutine may use
// them at a time.
package intent
