// Package archive keeps flows as Parquet files in a folder, summed up by the minute, and reads them
// again.
//
// It owns the files whose names it has made, and no others in the folder. It promises that a file
// is whole or not there, whenever the process ends; that the files together take no more bytes than
// is said, the oldest going first; and that a file which cannot be read is reported, and loses only
// its own content. DuckDB and Athena read the columns.
//
// An Archive may be used from several goroutines.
package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/nephele-io/nephele/internal/flows/live"
)

const (
	// DefaultBytes bounds all files together, unless something else is said.
	DefaultBytes = 1 << 30
	// maxScanned bounds the rows that are read for one question.
	maxScanned = 10_000_000
	// batch is how many rows are read at once.
	batch = 512
	// layout is how the names of files say from and until when they reach, in UTC.
	layout = "20060102T150405Z"
)

// fileName is what the files are called: flows-FROM-UNTIL-NUMBER.parquet.
var fileName = regexp.MustCompile(`^flows-(\d{8}T\d{6}Z)-(\d{8}T\d{6}Z)-(\d+)\.parquet$`)

// Archive is a folder of files.
type Archive struct {
	dir  string
	most int64

	// keeping is held while a part of the time is written; written is until when all is.
	keeping sync.Mutex
	written time.Time

	mu sync.Mutex
	// stats is what was found wrong since the start.
	stats Stats
}

// Stats are what metrics tell.
type Stats struct {
	// Files and Bytes are there now; Unread could not be read, and Forgotten were removed to make
	// room.
	Files, Unread, Forgotten int
	Bytes                    int64
}

// file is one of the folder.
type file struct {
	path        string
	from, until time.Time
	size        int64
}

// Open opens a folder, which is made if it is missing. What a former process has left unfinished is
// removed. All files together take at most so many bytes; DefaultBytes if that is 0.
func Open(dir string, most int64) (*Archive, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("flows on disk: %w", err)
	}
	a := &Archive{dir: dir, most: cmp.Or(most, DefaultBytes)}
	left, err := filepath.Glob(filepath.Join(dir, "flows-*.parquet.part"))
	if err == nil {
		for _, path := range left {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err == nil {
		err = a.prune()
	}
	if err != nil {
		return nil, fmt.Errorf("flows on disk: %w", err)
	}
	return a, nil
}

// Write keeps what was seen from a minute on and before another one. What is empty makes no file.
func (a *Archive) Write(entries []*live.Entry, from, until time.Time) (err error) {
	if len(entries) == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("flows on disk: %w", err)
		}
	}()
	var path string
	for n := 0; ; n++ { // a former process may have written a part of the same time
		path = filepath.Join(a.dir, fmt.Sprintf("flows-%s-%s-%d.parquet", from.UTC().Format(layout), until.UTC().Format(layout), n))
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = write(f, entries)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return a.prune()
}

func write(w io.Writer, entries []*live.Entry) error {
	options := []parquet.WriterOption{parquet.Compression(&zstd.Codec{Level: zstd.SpeedBetterCompression}), parquet.CreatedBy("nephele", "1", ""), parquet.MaxRowsPerRowGroup(maxInGroup)}
	if list := decisionsOf(entries); list != nil {
		text, err := packed(list)
		if err != nil {
			return err
		}
		options = append(options, parquet.KeyValueMetadata(decidedKey, text))
	}
	p := parquet.NewGenericWriter[any](w, append(options, schema)...)
	rows := make([]parquet.Row, batch)
	for chunk := range slices.Chunk(entries, batch) {
		for i, e := range chunk {
			r := rowOf(e)
			rows[i] = r.values(rows[i][:0])
		}
		if _, err := p.WriteRows(rows[:len(chunk)]); err != nil {
			return errors.Join(err, p.Close())
		}
	}
	return p.Close()
}

// files lists the files of the folder, the newest first.
func (a *Archive) files() ([]file, error) {
	found, err := os.ReadDir(a.dir)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, d := range found {
		m := fileName.FindStringSubmatch(d.Name())
		if m == nil || !d.Type().IsRegular() {
			continue
		}
		from, fromErr := time.Parse(layout, m[1])
		until, untilErr := time.Parse(layout, m[2])
		info, infoErr := d.Info()
		if fromErr != nil || untilErr != nil || infoErr != nil {
			continue // somebody else's, or gone
		}
		out = append(out, file{filepath.Join(a.dir, d.Name()), from, until, info.Size()})
	}
	slices.SortFunc(out, func(x, y file) int { return cmp.Or(y.from.Compare(x.from), strings.Compare(y.path, x.path)) })
	return out, nil
}

// prune removes the oldest files until the others have room.
func (a *Archive) prune() error {
	files, err := a.files()
	if err != nil {
		return err
	}
	a.stats.Files, a.stats.Bytes = 0, 0
	for _, f := range files {
		if a.stats.Bytes+f.size > a.most {
			if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			a.stats.Forgotten++
			continue
		}
		a.stats.Files++
		a.stats.Bytes += f.size
	}
	return nil
}

// Scan implements live.Past. It reads a file while the caller takes in the one before.
func (a *Archive) Scan(since, until time.Time, each func(*live.Entry) bool) (from time.Time, err error) {
	before := ahead{ready: map[string]chan reading{}, done: make(chan struct{})}
	defer close(before.done)
	return a.scan(since, until, func(files []file, f *file, left *int) (bool, error) {
		before.files = files
		for x := range before.take(f) {
			switch {
			case errors.Is(x.err, errOtherwise):
				return f.scan(since, until, left, each)
			case x.err != nil:
				return true, x.err
			case !x.scan(since, until, left, each):
				return false, nil
			case *left <= 0:
				return true, nil
			}
		}
		return true, nil
	})
}

// ScanDecided implements live.Past. Of files that are wholly within the time it reads what they say
// of all their rows together.
func (a *Archive) ScanDecided(since, until time.Time, each func(*live.Entry) bool) (from time.Time, err error) {
	return a.scan(since, until, func(_ []file, f *file, left *int) (bool, error) {
		if !f.from.Before(since) && !f.until.After(until) {
			if list, has, err := f.sums(); err != nil {
				return true, err
			} else if has {
				*left -= sumCost * len(list)
				return f.decided(list, each), nil
			}
		}
		return f.scan(since, until, left, each)
	})
}

// scan reads the files of a time, of whose rows at most maxScanned are read.
func (a *Archive) scan(since, until time.Time, read func(all []file, f *file, left *int) (more bool, err error)) (from time.Time, err error) {
	files, err := a.files()
	if err != nil {
		return from, fmt.Errorf("flows on disk: %w", err)
	}
	if len(files) > 0 {
		from = files[len(files)-1].from
	}
	files = slices.DeleteFunc(files, func(f file) bool { return !f.until.After(since) || !f.from.Before(until) })
	left := maxScanned
	for i := range files {
		more, err := read(files, &files[i], &left)
		switch {
		case errors.Is(err, os.ErrNotExist): // it made room meanwhile
		case err != nil:
			a.mu.Lock()
			a.stats.Unread++
			a.mu.Unlock()
		case !more:
			return from, nil
		}
		if left <= 0 {
			return from, fmt.Errorf("flows on disk: more than %d entries since %s: ask for less", maxScanned, since.UTC().Format(time.RFC3339))
		}
	}
	return from, nil
}

// scan reads the rows of a file. It reports false if no more is wanted.
func (f *file) scan(since, until time.Time, left *int, each func(*live.Entry) bool) (more bool, err error) {
	defer func() { // the library panics at some files that are broken
		if r := recover(); r != nil {
			more, err = true, fmt.Errorf("%s: %v", f.path, r)
		}
	}()
	in, err := os.Open(f.path)
	if err != nil {
		return true, err
	}
	defer func() { _ = in.Close() }()
	opened, err := parquet.OpenFile(in, f.size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return true, fmt.Errorf("%s: %w", f.path, err)
	}
	reader := parquet.NewGenericReader[any](opened, schema)
	defer func() { _ = reader.Close() }()
	rows := make([]parquet.Row, batch)
	var r row
	for {
		n, err := reader.ReadRows(rows)
		for i := range rows[:n] {
			r.take(rows[i])
			e, ok := r.entry()
			if !ok || e.Start.Before(since) || !e.Start.Before(until) {
				continue
			}
			if *left--; *left <= 0 {
				return true, nil
			}
			if !each(e) {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return true, fmt.Errorf("%s: %w", f.path, err)
		}
	}
}

// Stats returns what there is.
func (a *Archive) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}
