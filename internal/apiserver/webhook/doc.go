// Package webhook answers the admission requests of the API server about policies, tiers and
// groups: it fills in defaults, and refuses invalid objects.
//
// It owns the paths, the names under which they are registered, and the wire (AdmissionReview v1
// and v1beta1); the rules are in package admission. Hooks lists what is to be registered, Handlers
// serves it.
//
// A policy or group is checked twice. The mutating hook is asked first. It already refuses an
// object of a wrong form with 422 (Invalid), the code of the schema, because a schema cannot
// explain which fields exclude each other; what the rules of admission refuse gets 400
// (BadRequest). An object that cannot be decoded is left to the schema. The validating hook decides
// last, on the object as other webhooks have left it.
//
// Rules about other objects are checked against a cache. Before a refusal the API itself is asked,
// because the other object may be newer than the cache. If it was deleted a moment ago and is still
// in the cache, the policy is accepted here, and its status reports what is missing. An update that
// leaves the spec alone is always accepted, so that an object that is older than a rule can be
// labelled and deleted.
//
// No state is kept; everything is safe for concurrent use.
package webhook
