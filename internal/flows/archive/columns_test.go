package archive

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/nephele-io/nephele/internal/flows/live"
)

// TestLayouts reads files of several groups of rows, of one group that is too large to be held, and
// of columns without dictionaries: the same entries come of all.
func TestLayouts(t *testing.T) {
	entries := draw(rand.New(rand.NewPCG(3, 1)), maxDecoded+20_000, 10)
	rows := make([]row, len(entries))
	want := int64(0)
	for i, e := range entries {
		rows[i] = rowOf(e)
		want += e.Connections
	}
	type plain struct { // as another program might write it
		Minute      int64  `parquet:"minute,timestamp(millisecond)"`
		Client      string `parquet:"client"`
		Server      string `parquet:"server"`
		Connections int64  `parquet:"connections"`
	}
	others := make([]plain, len(rows))
	for i := range rows {
		others[i] = plain{rows[i].Minute, rows[i].Client.Address, rows[i].Server.Address, rows[i].Connections}
	}
	for name, write := range map[string]func(f *os.File) error{
		"groups": func(f *os.File) error { return write(f, entries) },
		"one group": func(f *os.File) error {
			w := parquet.NewGenericWriter[any](f, schema)
			for part := range slices.Chunk(rows, batch) {
				values := make([]parquet.Row, len(part))
				for i := range part {
					values[i] = part[i].values(nil)
				}
				if _, err := w.WriteRows(values); err != nil {
					return err
				}
			}
			return w.Close()
		},
		"without dictionaries": func(f *os.File) error {
			w := parquet.NewGenericWriter[plain](f)
			if _, err := w.Write(others); err != nil {
				return err
			}
			return w.Close()
		},
	} {
		a, err := Open(t.TempDir(), 0)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(a.dir, fmt.Sprintf("flows-%s-%s-0.parquet", begun.Format(layout), begun.Add(10*time.Minute).Format(layout))))
		if err != nil {
			t.Fatal(err)
		}
		if err := write(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		got, connections, texts := 0, int64(0), map[string]bool{}
		if _, err := a.Scan(begun, begun.Add(time.Hour), func(e *live.Entry) bool {
			got, connections = got+1, connections+e.Connections
			texts[e.Client.String()+" "+e.Server.String()] = true
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if got != len(entries) || connections != want || a.Stats().Unread != 0 || len(texts) < 1000 {
			t.Errorf("%s: %d entries of %d, %d connections of %d, %d pairs, %+v", name, got, len(entries), connections, want, len(texts), a.Stats())
		}
		few := 0
		if _, err := a.Scan(begun, begun.Add(time.Hour), func(*live.Entry) bool { few++; return few < 10 }); err != nil || few != 10 {
			t.Errorf("%s: %d entries after the last one that is wanted: %v", name, few, err)
		}
	}
}
