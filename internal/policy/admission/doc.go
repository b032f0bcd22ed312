// Package admission holds the rules by which policies, groups and tiers are completed and refused before they reach the
// engine. The webhooks and the offline commands share it.
//
// It promises to name, for everything it refuses, the field, the value and what is allowed. It is pure: no I/O, no
// clock, and safe for concurrent use.
package admission
