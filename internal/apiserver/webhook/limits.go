package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
)

// Timeout is how long an answer may take. The registration tells kube-apiserver to wait no longer.
const Timeout = 5 * time.Second

// What may be asked. By default any client that reaches the port may ask. So the cost of all
// questions together is bounded, and a question beyond the bound is refused before it costs
// anything.
const (
	// maxReview is the size of the largest question in bytes: an object and the former one, each as
	// large as etcd takes them, and what is around them. Of a larger object kube-apiserver would be
	// told no by etcd.
	maxReview = 2*(3<<19) + 256<<10
	// maxDepth is how deep the lists and objects of a question may be nested.
	maxDepth = 100
	// maxWork is how much memory all questions that are being answered may take, in bytes, as
	// estimate has it. One question with as many address blocks as an object can hold takes nearly
	// all of it.
	maxWork = 192 << 20
	// maxLargeWork is the part of it for questions that take more than smallWork, so that large
	// questions do not keep small ones out.
	maxLargeWork, smallWork = 160 << 20, 4 << 20
	// minWork is what a question is counted for at least.
	minWork = 128 << 10
	// readTime is how long the body of a question may take to arrive. kube-apiserver has it when it
	// begins to ask.
	readTime = 3 * time.Second
	// retryAfter is when to ask again. kube-apiserver does so by itself, within its time limit.
	retryAfter = time.Second
	// maxLive is how many questions at a time may lead to questions to kube-apiserver.
	maxLive = 4
)

// What it takes to decode a question and look at it, measured: much more for small objects, of
// which few bytes make large structs.
const (
	workPerByte   = 6
	workPerObject = 640
	workPerItem   = 192
)

// limits are shared by all hooks.
type limits struct {
	work, large *semaphore.Weighted
	live        *semaphore.Weighted
}

func newLimits() *limits {
	return &limits{work: semaphore.NewWeighted(maxWork), large: semaphore.NewWeighted(maxLargeWork), live: semaphore.NewWeighted(maxLive)}
}

// limitError is a question that is not answered, with what HTTP says about it.
type limitError struct {
	status int
	text   string
}

// Error implements error.
func (e *limitError) Error() string { return e.text }

var (
	errBusy = &limitError{http.StatusTooManyRequests, "too many or too large questions at the same time, ask again later"}
	errSize = &limitError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the AdmissionReview is larger than %d bytes", maxReview)}
	errSlow = &limitError{http.StatusRequestTimeout, fmt.Sprintf("the AdmissionReview has not arrived within %s", readTime)}
)

// tell writes the error.
func (e *limitError) tell(w http.ResponseWriter) {
	if e.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	http.Error(w, e.text, e.status)
}

// read returns the body of a question that may be decoded, and a function to call when it has been
// answered.
func (l *limits) read(w http.ResponseWriter, r *http.Request) (raw []byte, done func(), err error) {
	size := r.ContentLength
	switch {
	case size > maxReview:
		return nil, nil, errSize
	case size < 0:
		size = maxReview
	}
	held := max(size, minWork)
	if !l.work.TryAcquire(held) {
		return nil, nil, errBusy
	}
	done = func() { l.work.Release(held) }
	if raw, err = readBody(w, r, size); err != nil {
		done()
		return nil, nil, err
	}
	work, depth := estimate(raw)
	switch {
	case depth > maxDepth:
		err = &limitError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the AdmissionReview is nested deeper than %d", maxDepth)}
	case work > maxLargeWork:
		err = &limitError{
			http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the AdmissionReview has so many parts that it would take %d MB to look at, more than %d", work>>20, maxLargeWork>>20),
		}
	case !l.grow(held, work):
		err = errBusy
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return raw, func() { l.shrink(held, work) }, nil
}

// grow takes what a question needs beyond what is held for it, or reports that it is not to be had.
func (l *limits) grow(held, work int64) bool {
	if work > smallWork && !l.large.TryAcquire(work) {
		return false
	}
	if more := work - held; more > 0 && !l.work.TryAcquire(more) {
		if work > smallWork {
			l.large.Release(work)
		}
		return false
	}
	return true
}

// shrink gives back all that grow and read have taken.
func (l *limits) shrink(held, work int64) {
	if work > smallWork {
		l.large.Release(work)
	}
	l.work.Release(max(held, work))
}

// readBody reads the whole body, of which the size is known or bounded, unless it takes too long.
func readBody(w http.ResponseWriter, r *http.Request, size int64) ([]byte, error) {
	// Connections without deadlines, as in tests, do without.
	control := http.NewResponseController(w)
	timed := control.SetReadDeadline(time.Now().Add(readTime)) == nil
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(size) + bytes.MinRead)
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxReview))
	var tooLarge *http.MaxBytesError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &tooLarge):
		return nil, errSize
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, errSlow
	case err != nil:
		return nil, fmt.Errorf("read the AdmissionReview: %w", err)
	}
	if timed && r.Context().Err() == nil { // else there may be no connection any more
		_ = control.SetReadDeadline(time.Time{})
	}
	return body.Bytes(), nil
}

// estimate returns how much memory it takes to decode a JSON text, of which not more is known than
// that, and how deep it is nested.
func estimate(raw []byte) (work int64, deepest int) {
	var objects, items, depth int
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = endOfString(raw, i+1)
		case '{', '[':
			objects++
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		case ',':
			items++
		}
	}
	return int64(len(raw))*workPerByte + int64(objects)*workPerObject + int64(items)*workPerItem, deepest
}

// endOfString returns where the string ends that has its first character at i.
func endOfString(raw []byte, i int) int {
	for i < len(raw) {
		n := bytes.IndexAny(raw[i:], `"\`)
		switch {
		case n < 0:
			return len(raw)
		case raw[i+n] == '"':
			return i + n
		}
		i += n + 2
	}
	return len(raw)
}

// asking lets a question wait until it may ask kube-apiserver. The function is to be called when
// that is over.
func (l *limits) asking(ctx context.Context) (done func(), err error) {
	if err := l.live.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("wait until kube-apiserver may be asked: %w", err)
	}
	return func() { l.live.Release(1) }, nil
}
