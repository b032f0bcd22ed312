package support

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"time"
)

// Logs are the sources for the log files in a directory. Lines that were written before since are
// left out, unless it is zero; now is when the bundle is made.
func Logs(dir fs.FS, since, now time.Time) ([]Source, error) {
	names, err := fs.Glob(dir, "*.log")
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	var out []Source
	for _, name := range names {
		out = append(out, Source{Name: "logs/" + name, Read: func(context.Context) (io.ReadCloser, error) {
			file, err := dir.Open(name)
			if err != nil || since.IsZero() {
				return file, err
			}
			return &recent{from: bufio.NewReader(file), file: file, since: since, now: now}, nil
		}})
	}
	return out, nil
}

// recent is a log without the lines before a time. Lines of a log are in the order of time.
type recent struct {
	from       *bufio.Reader
	file       io.Closer
	since, now time.Time
	reached    bool
}

// Read implements io.Reader.
func (r *recent) Read(p []byte) (int, error) {
	for !r.reached {
		start, err := r.from.Peek(timeWithin)
		if at, ok := timeOf(start, r.now); ok && !at.Before(r.since) {
			r.reached = true
			break
		}
		if err != nil && len(start) == 0 {
			return 0, err
		}
		if err := skipLine(r.from); err != nil {
			return 0, err
		}
	}
	return r.from.Read(p)
}

// Close implements io.Closer.
func (r *recent) Close() error { return r.file.Close() }

// skipLine reads to the end of a line.
func skipLine(r *bufio.Reader) error {
	for {
		switch _, err := r.ReadSlice('\n'); err {
		case nil, io.EOF:
			return err
		case bufio.ErrBufferFull:
		default:
			return err
		}
	}
}

// timeWithin is in how many bytes of its beginning a line says when it was written.
const timeWithin = 120

var (
	// stamp is the time of lines of slog and of records in JSON, shortStamp that of klog, which
	// leaves the year out.
	stamp      = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`)
	shortStamp = regexp.MustCompile(`^[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) `)
)

// timeOf is when a line that begins so was written; false if it does not say that.
func timeOf(start []byte, now time.Time) (time.Time, bool) {
	start, _, _ = bytes.Cut(start, []byte{'\n'})
	if m := shortStamp.FindSubmatch(start); m != nil {
		at, err := time.ParseInLocation("2006 0102 15:04:05.000000", fmt.Sprintf("%d %s", now.Year(), m[1]), now.Location())
		if err == nil && at.After(now.Add(24*time.Hour)) { // of the last days of the last year
			at = at.AddDate(-1, 0, 0)
		}
		return at, err == nil
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp.Find(start)))
	return at, err == nil
}
