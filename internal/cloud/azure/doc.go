// Package azure reads and changes the objects of an Azure subscription. It owns all that is Azure's
// own: the SDK, credentials, the ids and the case of ids, tags, pairs of groups, and the classes of
// Azure's errors.
//
// It promises what cloud.Provider demands: a snapshot is a whole region or an error. Resource Graph
// tells what there is; it leaves out in silence what the role may not read, and is a little behind.
// So whatever one object of an answer names and another part of the answer does not tell is read
// directly, and what may not be read is an error. An interface or a group is changed only as it is
// at that moment: it is read directly, and written with If-Match. Of groups only those with a name
// like ours are written or deleted.
//
// An Account may be used by any number of goroutines. It lets one writer at a time at a group.
package azure
