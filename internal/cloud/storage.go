package cloud

import (
	"context"
	"io"
	"time"
)

// Bucket is a place in the storage of a cloud.
type Bucket struct {
	Name, Region string
}

// StoredObject is a file there.
type StoredObject struct {
	Name    string
	Size    int64
	Changed time.Time
	// Tag is another one when the object has other content.
	Tag string
}

// Storage is a Provider that can read files in the storage of its cloud.
type Storage interface {
	// Objects lists objects whose names begin with a prefix and come after a name, in the order of
	// their names. More tells that there are others after the last one. Errors are *Error.
	Objects(ctx context.Context, at Bucket, prefix, after string) (list []StoredObject, more bool, err error)
	// Object opens one. Errors are *Error.
	Object(ctx context.Context, at Bucket, name string) (io.ReadCloser, error)
}
