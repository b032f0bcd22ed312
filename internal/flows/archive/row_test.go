package archive

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/nephele-io/nephele/internal/flows/live"
)

// kept are the entries of testdata/flows.parquet, which was written when each column was a field of
// its own: every column has a value in some of them.
func kept() []*live.Entry {
	entries := draw(rand.New(rand.NewPCG(5, 5)), 300, 3)
	for i, e := range entries {
		e.Differs, e.Ended, e.Packets, e.ReplyPackets, e.Uncounted = []string{"", "x"}[i%2], int64(i%3), int64(i), int64(2*i), i%5 == 0
		e.Cause.Why, e.Before.Why = fmt.Sprintf("why %d", i%7), []string{"", "before"}[i%2]
	}
	return entries
}

// columnsOf are the columns of a file: names and types as other programs see them, and how each is
// written.
func columnsOf(t *testing.T, file []byte) (schema, encodings string) {
	t.Helper()
	p, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Metadata().RowGroups[0].Columns {
		encodings += fmt.Sprintln(c.MetaData.PathInSchema, c.MetaData.Type, c.MetaData.Encoding, c.MetaData.Codec)
	}
	return p.Schema().String() + "\n", encodings
}

// TestFormat: files of former releases are read as they were written, and new ones have the same
// columns, in the same order and encoding.
func TestFormat(t *testing.T) {
	former, err := os.ReadFile("testdata/flows.parquet")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/columns.txt")
	if err != nil {
		t.Fatal(err)
	}
	var now bytes.Buffer
	if err := write(&now, kept()); err != nil {
		t.Fatal(err)
	}
	formerSchema, formerEncodings := columnsOf(t, former)
	schema, encodings := columnsOf(t, now.Bytes())
	if formerSchema != string(want) || schema != string(want) {
		t.Errorf("columns:\n%s\nof a former file:\n%s\nwant:\n%s", schema, formerSchema, want)
	}
	if encodings != formerEncodings {
		t.Errorf("encodings:\n%s\nof a former file:\n%s", encodings, formerEncodings)
	}
	a, err := Open(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("flows-%s-%s-0.parquet", begun.Format(layout), begun.Add(3*time.Minute).Format(layout))
	if err := os.WriteFile(filepath.Join(a.dir, name), former, 0o600); err != nil {
		t.Fatal(err)
	}
	byColumns := all(t, a, begun, begun.Add(time.Hour))
	files, err := a.files()
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files (%v)", len(files), err)
	}
	var byRows []*live.Entry
	left := maxScanned
	if _, err := files[0].scan(begun, begun.Add(time.Hour), &left, func(e *live.Entry) bool { byRows = append(byRows, e); return true }); err != nil {
		t.Fatal(err)
	}
	for how, got := range map[string][]*live.Entry{"by columns": byColumns, "by rows": byRows} {
		if len(got) != len(kept()) {
			t.Errorf("%s: %d entries", how, len(got))
			continue
		}
		for i, e := range kept() {
			if !reflect.DeepEqual(got[i], e) {
				t.Fatalf("%s: entry %d is\n%+v\nwant\n%+v", how, i, got[i], e)
			}
		}
	}
}

// TestFields: every field of a row is a column, and no two columns are one field.
func TestFields(t *testing.T) {
	places := map[any]string{}
	var r row
	for _, f := range fields {
		if other, twice := places[f.at(&r)]; twice {
			t.Errorf("%s and %s are one field", f.tag, other)
		}
		places[f.at(&r)] = f.tag
	}
	var count func(v reflect.Value) int
	count = func(v reflect.Value) (n int) {
		if v.Kind() != reflect.Struct {
			return 1
		}
		for i := range v.NumField() {
			n += count(v.Field(i))
		}
		return n
	}
	if n := count(reflect.ValueOf(r)); n != len(fields)+1 { // a Service has no enforcer
		t.Errorf("a row has %d values, and there are %d columns", n, len(fields))
	}
}
