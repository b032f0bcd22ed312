package hub

import (
	"bytes"
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// TestPaced: a member that sends faster than it may is read no faster: what is beyond waits, and
// ends with the stream.
func TestPaced(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	p := &paced{ctx, bytes.NewReader(make([]byte, 1000)), rate.NewLimiter(1.0/3600, 100)} // a byte an hour
	some := make([]byte, 60)
	if n, err := p.Read(some); n != 60 || err != nil {
		t.Error(n, err)
	}
	if n, err := p.Read(some); n != 60 || err == nil { // 20 hours
		t.Error(n, err)
	}
	if bytesAtOnce < 64<<10 { // of what one reading takes
		t.Error("a reading never passes")
	}
}
