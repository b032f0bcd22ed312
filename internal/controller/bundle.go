package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	supportbundle "github.com/nephele-io/nephele/internal/apiserver/bundle"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/support"
)

// bundleBytes bounds a support bundle that the controller makes, unpacked: it keeps it in memory.
const bundleBytes = 32 << 20

// bundle makes support bundles of what this process knows: objects as it may read them, what it has
// computed, its metrics, its goroutines and its memory, and its log where that is in files.
func bundle(objects client.Reader, store *watchstore.Store, clk clock.PassiveClock, o Options) supportbundle.Write {
	return func(ctx context.Context, w io.Writer, since time.Time) error {
		sources := []support.Source{
			{Name: "version.txt", Read: written(func(w io.Writer) error { _, err := fmt.Fprintln(w, o.Version); return err })},
			{Name: "metrics.txt", Read: written(writeMetrics)},
			{Name: "goroutines.txt", Head: true, Read: written(func(w io.Writer) error { return pprof.Lookup("goroutine").WriteTo(w, 1) })},
			{Name: "heap.txt", Head: true, Read: written(func(w io.Writer) error { return pprof.Lookup("heap").WriteTo(w, 1) })},
		}
		for _, r := range watchstore.Resources() {
			sources = append(sources, support.Source{Name: "computed/" + string(r) + ".jsonl", Head: true, Read: computedObjects(store, r)})
		}
		if o.LogDir == "" {
			sources = append(sources, support.Source{Name: "logs", Read: func(context.Context) (io.ReadCloser, error) {
				return nil, errors.New("they are not in files: kubectl logs has them")
			}})
		} else {
			logs, err := support.Logs(os.DirFS(o.LogDir), since, clk.Now())
			if err != nil {
				return err
			}
			sources = append(sources, logs...)
		}
		_, err := support.Write(ctx, w, support.Options{Client: objects, Sources: sources, MaxBytes: bundleBytes, Now: clk.Now})
		return err
	}
}

// written is what is written into memory when it is read.
func written(write func(io.Writer) error) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		var text bytes.Buffer
		err := write(&text)
		return io.NopCloser(&text), err
	}
}

func writeMetrics(w io.Writer) error {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return err
	}
	out := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// computedObjects are the objects of a kind that are computed, one JSON value a line. One at a time
// is in memory: groups may be large.
func computedObjects(store *watchstore.Store, r watchstore.Resource) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		names, err := store.Names(r)
		if err != nil {
			return nil, err
		}
		in := make([]io.Reader, len(names))
		for i, name := range names {
			in[i] = &computedObject{get: func() (any, bool, error) {
				if err := ctx.Err(); err != nil {
					return nil, false, err
				}
				return store.Get(r, name)
			}}
		}
		return io.NopCloser(io.MultiReader(in...)), nil
	}
}

// computedObject is one object, looked up when it is read.
type computedObject struct {
	get  func() (object any, there bool, err error)
	text io.Reader
}

// Read implements io.Reader.
func (c *computedObject) Read(p []byte) (int, error) {
	if c.text == nil {
		object, there, err := c.get()
		if err != nil {
			return 0, err
		}
		c.text = strings.NewReader("")
		if there {
			text, err := json.Marshal(object)
			if err != nil {
				return 0, err
			}
			c.text = bytes.NewReader(append(text, '\n'))
		}
	}
	return c.text.Read(p)
}
