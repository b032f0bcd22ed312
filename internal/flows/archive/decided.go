package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/nephele-io/nephele/internal/flows/live"
)

// This file holds what a file says of all its rows together: how often each rule decided. It stands
// in the file's metadata, so that what rules have decided within weeks is known without reading
// rows.

const (
	// decidedKey is where it stands.
	decidedKey = "nephele.decided"
	// maxSums bounds the sums of a file; of one with more the rows are read.
	maxSums = 20_000
	// sumCost is how many rows reading one of them costs as much as.
	sumCost = 3
	// maxSumBytes bounds them when they are unpacked.
	maxSumBytes = 16 << 20
)

// decider is what sums are about: rules that decided, and what determines which callers may see
// them.
type decider struct {
	Host    string     `json:"h,omitempty"` // the Namespace of the host that saw it, if one did
	Client  string     `json:"c,omitempty"` // that of the client, as of the server
	Server  string     `json:"s,omitempty"`
	Differs string     `json:"x,omitempty"`
	Rule    live.Cause `json:"r"`
}

// decision is a sum.
type decision struct {
	decider
	Connections int64 `json:"n"`
	Last        int64 `json:"l"`
}

// decisionsOf sums entries; nil if they are of too many rules.
func decisionsOf(entries []*live.Entry) []decision {
	at := map[decider]int{}
	out := []decision{}
	for _, e := range entries {
		for _, c := range []live.Cause{e.Cause, e.Before} {
			if c.Cause != "Policy" || e.Connections == 0 {
				continue
			}
			host, _ := live.HostOf(e.Enforcer)
			k := decider{host, e.ClientOwner.Namespace, e.ServerOwner.Namespace, e.Differs, c}
			k.Rule.UID, k.Rule.Why = "", ""
			i, known := at[k]
			if !known {
				if len(out) == maxSums {
					return nil
				}
				i = len(out)
				at[k], out = i, append(out, decision{decider: k})
			}
			out[i].Connections += e.Connections
			out[i].Last = max(out[i].Last, e.Last.UnixMilli())
		}
	}
	return out
}

// packed are sums as they stand in a file.
func packed(list []decision) (string, error) {
	var b bytes.Buffer
	to := base64.NewEncoder(base64.StdEncoding, &b)
	z := gzip.NewWriter(to)
	if err := json.NewEncoder(z).Encode(list); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := to.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
}

func unpacked(text string) (list []decision, err error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader([]byte(text))))
	if err != nil {
		return nil, err
	}
	err = json.NewDecoder(io.LimitReader(z, maxSumBytes)).Decode(&list)
	if len(list) > maxSums {
		return nil, fmt.Errorf("%d sums", len(list))
	}
	return list, err
}

// sums reads the sums of a file. It reports false if the file has none.
func (f *file) sums() (list []decision, has bool, err error) {
	defer func() { // the library panics at some files that are broken
		if r := recover(); r != nil {
			list, has, err = nil, false, fmt.Errorf("%s: %v", f.path, r)
		}
	}()
	in, err := os.Open(f.path)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = in.Close() }()
	opened, err := parquet.OpenFile(in, f.size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", f.path, err)
	}
	text, has := opened.Lookup(decidedKey)
	if !has {
		return nil, false, nil
	}
	if list, err = unpacked(text); err != nil {
		return nil, false, fmt.Errorf("%s: %w", f.path, err)
	}
	return list, true, nil
}

// decided calls each for what the rules of a file decided, as one entry for all of its time.
func (f *file) decided(list []decision, each func(*live.Entry) bool) (more bool) {
	for i := range list {
		d := &list[i]
		e := &live.Entry{
			Start: f.from, Last: time.UnixMilli(d.Last).UTC(), Differs: d.Differs, Connections: d.Connections, Cause: d.Rule,
			ClientOwner: live.Owner{Namespace: d.Client}, ServerOwner: live.Owner{Namespace: d.Server},
		}
		if d.Host != "" {
			e.Enforcer = d.Host + "/" // of whichever host there
		}
		if !each(e) {
			return false
		}
	}
	return true
}
