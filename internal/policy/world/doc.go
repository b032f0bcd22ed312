// Package world holds Namespaces and entities, and what selectors choose of them.
//
// Entities are held by cell: entities of one kind in one Namespace with the same labels, which no
// selector can tell apart. A Selection is what one selector selects, as a list of cells; it is held
// once, however many use it. It knows nothing of what follows from it: its Followers learn which
// cells come to it and go from it, and which entities in these come, go or change.
//
// A change costs the Followers of the selections that contain the entity's cell; one of its labels
// also the selections that name a label it had or has. A World has one owner, and is not safe for
// concurrent use.
package world
