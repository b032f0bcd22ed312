package cloud

import (
	"context"
	"io"
	"time"
)

// Bucket is a place in the storage of a cloud: a bucket of S3 by its name, or a container of blobs
// by its URL.
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

// MostObjectBytes bounds an object that is read: AWS begins a new file of flow logs at 75 MB.
const MostObjectBytes = 80 << 20

// Storage is a Provider that can read files in the storage of its cloud.
type Storage interface {
	// Objects lists a page of the objects whose names begin with a prefix: the first if page is
	// empty, and else the one that next named; it is empty after the last. Errors are *Error.
	Objects(ctx context.Context, at Bucket, prefix, page string) (list []StoredObject, next string, err error)
	// Object opens one. Errors are *Error. The reading fails beyond MostObjectBytes.
	Object(ctx context.Context, at Bucket, name string) (io.ReadCloser, error)
}

// FolderLister is a Storage that can list the parts of names.
type FolderLister interface {
	// Folders lists what names that begin with a prefix go on with up to the next slash, the prefix
	// and the slash included. Errors are *Error.
	Folders(ctx context.Context, at Bucket, prefix string) ([]string, error)
}

// Clocked is a Storage that knows by the answers of its cloud how far the clock there is ahead of
// ours, in whole minutes; 0 before the first answer, and for less than two minutes.
type Clocked interface {
	Ahead() time.Duration
}

// leastAhead is what does not count as ahead: answers take a while.
const leastAhead = 2 * time.Minute

// AheadBy is how far a clock is ahead of ours that was at the date of an answer over HTTP now. It
// is false if that is no date.
func AheadBy(date string, now time.Time) (time.Duration, bool) {
	at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", date)
	if err != nil {
		return 0, false
	}
	by := at.Sub(now).Round(time.Minute)
	if by.Abs() < leastAhead {
		by = 0
	}
	return by, true
}
