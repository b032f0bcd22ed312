package archive

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/nephele-io/nephele/internal/flows/live"
)

// This file reads files column by column, as they lie there, which takes half of the time that it
// takes to make rows of all their values first.

// maxInGroup is how many rows a group of a file has, and maxDecoded bounds the rows of one that is
// held by columns, at about 220 bytes each. Three groups are held at most.
const (
	maxInGroup = 50_000
	maxDecoded = 100_000
)

// errOtherwise is the error for a file that cannot be read so; its rows are read one by one.
var errOtherwise = errors.New("not in columns as ours are")

// fieldOf are the fields by the names of their columns.
var fieldOf = func() map[string]field {
	out := map[string]field{}
	for _, f := range fields {
		name, _, _ := strings.Cut(f.tag, ",")
		out[name] = f
	}
	return out
}()

// decoded is a part of a file by its columns: what is not the same in all rows, and where in r it
// goes. What is the same is there already.
type decoded struct {
	rows    int
	r       row
	texts   []column[string]
	smalls  []column[int32]
	numbers []numbers
	flags   []bool
}

// column has the values of a dictionary, and for each row the place of its own.
type column[T any] struct {
	to     *T
	values []T
	at     []int32
}

type numbers struct {
	to     *int64
	values []int64
}

// reading is a part of a file, or why there is no more.
type reading struct {
	*decoded
	err error
}

// decode reads a file by its groups of rows, each once the one before was taken, until done is
// closed.
func (f *file) decode(out chan<- reading, done <-chan struct{}) {
	defer close(out)
	note := func(x reading) bool {
		select {
		case out <- x:
			return true
		case <-done:
			return false
		}
	}
	defer func() { // the library panics at some files that are broken
		if r := recover(); r != nil {
			note(reading{err: fmt.Errorf("%s: %v", f.path, r)})
		}
	}()
	in, err := os.Open(f.path)
	if err != nil {
		note(reading{err: err})
		return
	}
	defer func() { _ = in.Close() }()
	p, err := parquet.OpenFile(in, f.size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		note(reading{err: fmt.Errorf("%s: %w", f.path, err)})
		return
	}
	for i, g := range p.RowGroups() {
		d, err := decodeGroup(g)
		switch {
		case errors.Is(err, errOtherwise) && i > 0: // what was reported cannot be taken back
			err = fmt.Errorf("%s: group %d is %v", f.path, i, err)
		case err != nil:
			err = fmt.Errorf("%s: %w", f.path, err)
		}
		if !note(reading{d, err}) || err != nil {
			return
		}
	}
}

func decodeGroup(g parquet.RowGroup) (out *decoded, err error) {
	if g.NumRows() > maxDecoded {
		return nil, errOtherwise
	}
	out = &decoded{rows: int(g.NumRows())}
	names := g.Schema().Columns()
	for i, c := range g.ColumnChunks() {
		f, known := fieldOf[names[i][0]]
		if !known || len(names[i]) != 1 { // of a later version
			continue
		}
		switch to := f.at(&out.r).(type) {
		case *string:
			out.texts, err = add(out.texts, to, c, out.rows, func(v parquet.Value) string { return string(v.ByteArray()) })
		case *int32:
			out.smalls, err = add(out.smalls, to, c, out.rows, parquet.Value.Int32)
		case *int64:
			err = out.number(c, to)
		case *bool:
			err = out.flag(c)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// add reads a column with a dictionary, and adds it if its rows differ.
func add[T any](list []column[T], to *T, c parquet.ColumnChunk, rows int, of func(parquet.Value) T) ([]column[T], error) {
	out := column[T]{to: to, at: make([]int32, 0, rows)}
	err := pages(c, func(p parquet.Page) error {
		d := p.Dictionary()
		if d == nil {
			return errOtherwise
		}
		for v := len(out.values); v < d.Len(); v++ {
			out.values = append(out.values, of(d.Index(int32(v))))
		}
		data := p.Data()
		for _, v := range data.Int32() {
			if v < 0 || int(v) >= len(out.values) {
				return errOtherwise
			}
		}
		out.at = append(out.at, data.Int32()...)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(out.at) != rows:
		return nil, errOtherwise
	case len(out.values) == 1:
		*to = out.values[0]
		return list, nil
	}
	return append(list, out), nil
}

func (d *decoded) number(c parquet.ColumnChunk, to *int64) error {
	out := numbers{to, make([]int64, 0, d.rows)}
	err := pages(c, func(p parquet.Page) error {
		if p.Dictionary() != nil {
			return errOtherwise
		}
		data := p.Data()
		out.values = append(out.values, data.Int64()...)
		return nil
	})
	if err == nil && len(out.values) != d.rows {
		err = errOtherwise
	}
	d.numbers = append(d.numbers, out)
	return err
}

func (d *decoded) flag(c parquet.ColumnChunk) error {
	d.flags = make([]bool, 0, d.rows)
	err := pages(c, func(p parquet.Page) error {
		values := make([]parquet.Value, p.NumValues())
		n, err := p.Values().ReadValues(values)
		for _, v := range values[:n] {
			d.flags = append(d.flags, v.Boolean())
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	if err == nil && len(d.flags) != d.rows {
		err = errOtherwise
	}
	return err
}

// pages calls do for the pages of a column.
func pages(c parquet.ColumnChunk, do func(parquet.Page) error) error {
	all := c.Pages()
	defer func() { _ = all.Close() }()
	for {
		p, err := all.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = do(p)
		parquet.Release(p)
		if err != nil {
			return err
		}
	}
}

// scan calls each for the rows of a time. It reports false if no more is wanted.
func (d *decoded) scan(since, until time.Time, left *int, each func(*live.Entry) bool) (more bool) {
	for i := range d.rows {
		for k := range d.texts {
			c := &d.texts[k]
			*c.to = c.values[c.at[i]]
		}
		for k := range d.smalls {
			c := &d.smalls[k]
			*c.to = c.values[c.at[i]]
		}
		for k := range d.numbers {
			c := &d.numbers[k]
			*c.to = c.values[i]
		}
		if d.flags != nil {
			d.r.Uncounted = d.flags[i]
		}
		e, ok := d.r.entry()
		if !ok || e.Start.Before(since) || !e.Start.Before(until) {
			continue
		}
		if *left--; *left <= 0 {
			return true
		}
		if !each(e) {
			return false
		}
	}
	return true
}

// ahead reads files of a list one before they are asked for.
type ahead struct {
	files []file
	next  int
	ready map[string]chan reading
	done  chan struct{}
}

// take returns the parts of a file of the list, and begins to read the next one.
func (a *ahead) take(f *file) <-chan reading {
	begin := func(f *file) chan reading {
		out := make(chan reading)
		go f.decode(out, a.done)
		return out
	}
	mine := a.ready[f.path]
	if mine == nil {
		mine = begin(f)
	}
	delete(a.ready, f.path)
	for a.next < len(a.files) && a.files[a.next].path != f.path {
		a.next++
	}
	if a.next++; a.next < len(a.files) {
		a.ready[a.files[a.next].path] = begin(&a.files[a.next])
	}
	return mine
}
