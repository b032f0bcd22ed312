// Package azure reads and changes the objects of an Azure subscription. It owns all that is Azure's own: the SDK, credentials, the ids and
// the case of ids, tags, and the classes of Azure's errors.
//
// It promises what cloud.Provider demands of Observe and Limits: a snapshot is a whole region or an error. Resource Graph tells what there is; it
// leaves out in silence what the role may not read, and is a little behind. So whatever one object of an answer names and another part
// of the answer does not tell is read directly, and what may not be read is an error. An interface is changed only as it is at that moment:
// it is read directly, and written with If-Match.
//
// Apply is not there yet: the snapshot of a network security group carries no rules, because the port can only say what is allowed (decision
// 0017). So nothing can plan with what this package returns, by its type.
//
// An Account may be used by any number of goroutines.
package azure
