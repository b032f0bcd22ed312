// Package admission holds the rules by which Antrea policies, groups and tiers are completed and
// refused before they reach the engine. The webhooks and the offline commands share it.
//
// Schema reports what the CRD schemas refuse (HTTP 422), the Validate functions what the webhooks
// refuse (HTTP 400). Every error names the field, the value and what is allowed. The package is
// pure: no I/O, no clock; it keeps no state and is safe for concurrent use.
package admission
