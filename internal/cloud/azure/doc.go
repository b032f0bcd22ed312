// Package azure reads and changes the objects of an Azure subscription. It owns what is specific to
// Azure: the SDK, credentials, ids and their case, tags, pairs of groups, and the classes of
// Azure's errors.
//
// It promises what cloud.Provider demands: a snapshot is a whole region or an error. Resource Graph
// lists the objects, but silently leaves out what the role may not read, and lags behind. So an
// object that another one refers to and that is not in the answer is read directly, and it is an
// error if the role may not read it. Before an interface or a group is changed, it is read
// directly, and written with If-Match. Only groups with a name like ours are written or deleted.
//
// An Account may be used by any number of goroutines. It serializes the writes to a group. The
// comment of package lower says where Azure does not fit the port.
package azure
