// Package webhook answers the API server's questions about policies, tiers and groups before they
// are stored: what is left out is filled in, what is wrong is refused.
//
// It owns the paths, the names under which they are registered, and the wire (AdmissionReview v1
// and v1beta1); the rules are those of package admission. Hooks lists what is to be registered,
// Handlers serves it.
//
// A policy or group is checked twice. The mutating hook, which is asked first, already refuses what
// the form is wrong in, with the code of the schema, 422 (Invalid), because a schema cannot say in
// words what does not go together; and what the rules refuse, with 400 (BadRequest). What cannot
// even be read it leaves to the schema. The validating hook has the last word, on the object as
// other webhooks have left it.
//
// What depends on other objects is decided on a cache. Before that leads to a refusal it is looked
// up once more in the API itself, because the object in question may be a moment old. The reverse,
// something just deleted that still seems to be there, is accepted here and told in the status of
// the object. An update that leaves the spec alone is accepted, so that an object from before a
// rule can be labelled and deleted.
//
// No state is kept; everything is safe for concurrent use.
package webhook
