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
	"net/netip"
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
	p := parquet.NewGenericWriter[row](w, options...)
	rows := make([]row, 0, batch)
	for chunk := range slices.Chunk(entries, batch) {
		rows = rows[:0]
		for _, e := range chunk {
			rows = append(rows, rowOf(e))
		}
		if _, err := p.Write(rows); err != nil {
			return errors.Join(err, p.Close())
		}
	}
	return p.Close()
}

// files lists those of the folder, the newest first.
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
	r := parquet.NewGenericReader[row](opened)
	defer func() { _ = r.Close() }()
	rows := make([]row, batch)
	for {
		n, err := r.Read(rows)
		for i := range rows[:n] {
			e, ok := rows[i].entry()
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
		clear(rows)
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

// row is an entry as it is in a file. The names are for other programs that read the files.
type row struct {
	Minute    int64  `parquet:"minute,timestamp(millisecond),delta"`
	First     int64  `parquet:"first_ms,delta"`
	Last      int64  `parquet:"last_ms,delta"`
	Enforcer  string `parquet:"enforcer,dict"`
	Direction string `parquet:"direction,dict"`

	Client          string `parquet:"client,dict"`
	ClientKind      string `parquet:"client_kind,dict"`
	ClientNamespace string `parquet:"client_namespace,dict"`
	ClientName      string `parquet:"client_name,dict"`
	ClientEnforcer  string `parquet:"client_enforcer,dict"`
	Server          string `parquet:"server,dict"`
	ServerKind      string `parquet:"server_kind,dict"`
	ServerNamespace string `parquet:"server_namespace,dict"`
	ServerName      string `parquet:"server_name,dict"`
	ServerEnforcer  string `parquet:"server_enforcer,dict"`
	Service         string `parquet:"service,dict"`
	ServiceKind     string `parquet:"service_kind,dict"`
	ServiceNS       string `parquet:"service_namespace,dict"`
	ServiceName     string `parquet:"service_name,dict"`
	Protocol        int32  `parquet:"protocol,dict"`
	Port            int32  `parquet:"port,dict"`

	Verdict         string `parquet:"verdict,dict"`
	Differs         string `parquet:"differs,dict"`
	Cause           string `parquet:"cause,dict"`
	PolicyType      string `parquet:"policy_type,dict"`
	PolicyNamespace string `parquet:"policy_namespace,dict"`
	PolicyName      string `parquet:"policy_name,dict"`
	PolicyUID       string `parquet:"policy_uid,dict"`
	Rule            string `parquet:"rule,dict"`
	RuleIndex       int32  `parquet:"rule_index,dict"`
	RuleDirection   string `parquet:"rule_direction,dict"`
	Why             string `parquet:"why,dict"`

	BeforeCause     string `parquet:"before_cause,dict"`
	BeforeType      string `parquet:"before_policy_type,dict"`
	BeforeNamespace string `parquet:"before_policy_namespace,dict"`
	BeforeName      string `parquet:"before_policy_name,dict"`
	BeforeUID       string `parquet:"before_policy_uid,dict"`
	BeforeRule      string `parquet:"before_rule,dict"`
	BeforeIndex     int32  `parquet:"before_rule_index,dict"`
	BeforeDirection string `parquet:"before_rule_direction,dict"`
	BeforeWhy       string `parquet:"before_why,dict"`

	Connections  int64 `parquet:"connections,delta"`
	Ended        int64 `parquet:"ended,delta"`
	Packets      int64 `parquet:"packets,delta"`
	Bytes        int64 `parquet:"bytes,delta"`
	ReplyPackets int64 `parquet:"reply_packets,delta"`
	ReplyBytes   int64 `parquet:"reply_bytes,delta"`
	Uncounted    bool  `parquet:"uncounted"`
}

func rowOf(e *live.Entry) row {
	r := row{
		Minute: e.Start.UnixMilli(), First: e.First.UnixMilli() - e.Start.UnixMilli(), Last: e.Last.UnixMilli() - e.Start.UnixMilli(), Enforcer: e.Enforcer, Direction: e.Direction,
		Client: e.Client.String(), ClientKind: e.ClientOwner.Kind, ClientNamespace: e.ClientOwner.Namespace, ClientName: e.ClientOwner.Name, ClientEnforcer: e.ClientOwner.Enforcer,
		Server: e.Server.String(), ServerKind: e.ServerOwner.Kind, ServerNamespace: e.ServerOwner.Namespace, ServerName: e.ServerOwner.Name, ServerEnforcer: e.ServerOwner.Enforcer,
		ServiceKind: e.AskedOwner.Kind, ServiceNS: e.AskedOwner.Namespace, ServiceName: e.AskedOwner.Name, Protocol: int32(e.Protocol), Port: int32(e.Port),
		Verdict: e.Verdict, Differs: e.Differs, Cause: e.Cause.Cause, PolicyType: e.Cause.Type, PolicyNamespace: e.Cause.Namespace, PolicyName: e.Cause.Name,
		PolicyUID: e.Cause.UID, Rule: e.Cause.Rule, RuleIndex: e.Cause.Index, RuleDirection: e.Cause.Direction, Why: e.Cause.Why,
		BeforeCause: e.Before.Cause, BeforeType: e.Before.Type, BeforeNamespace: e.Before.Namespace, BeforeName: e.Before.Name, BeforeUID: e.Before.UID,
		BeforeRule: e.Before.Rule, BeforeIndex: e.Before.Index, BeforeDirection: e.Before.Direction, BeforeWhy: e.Before.Why,
		Connections: e.Connections, Ended: e.Ended, Packets: e.Packets, Bytes: e.Bytes, ReplyPackets: e.ReplyPackets, ReplyBytes: e.ReplyBytes, Uncounted: e.Uncounted,
	}
	if e.Asked.IsValid() {
		r.Service = e.Asked.String()
	}
	return r
}

// entry is the row as an entry; false if it is none.
func (r *row) entry() (*live.Entry, bool) {
	client, clientErr := netip.ParseAddr(r.Client)
	server, serverErr := netip.ParseAddr(r.Server)
	if clientErr != nil || serverErr != nil || r.Protocol>>8 != 0 || r.Port>>16 != 0 {
		return nil, false
	}
	start := time.UnixMilli(r.Minute).UTC()
	e := &live.Entry{
		Start: start, First: start.Add(time.Duration(r.First) * time.Millisecond), Last: start.Add(time.Duration(r.Last) * time.Millisecond), Enforcer: r.Enforcer,
		Direction: r.Direction, Client: client, Server: server, Protocol: uint8(r.Protocol), Port: uint16(r.Port), Verdict: r.Verdict, Differs: r.Differs,
		ClientOwner: live.Owner{Kind: r.ClientKind, Namespace: r.ClientNamespace, Name: r.ClientName, Enforcer: r.ClientEnforcer},
		ServerOwner: live.Owner{Kind: r.ServerKind, Namespace: r.ServerNamespace, Name: r.ServerName, Enforcer: r.ServerEnforcer},
		AskedOwner:  live.Owner{Kind: r.ServiceKind, Namespace: r.ServiceNS, Name: r.ServiceName},
		Connections: r.Connections, Ended: r.Ended, Packets: r.Packets, Bytes: r.Bytes, ReplyPackets: r.ReplyPackets, ReplyBytes: r.ReplyBytes, Uncounted: r.Uncounted,
	}
	e.Cause = live.Cause{
		Cause: r.Cause, Type: r.PolicyType, Namespace: r.PolicyNamespace, Name: r.PolicyName, UID: r.PolicyUID, Direction: r.RuleDirection, Rule: r.Rule, Index: r.RuleIndex,
		Why: r.Why,
	}
	e.Before = live.Cause{
		Cause: r.BeforeCause, Type: r.BeforeType, Namespace: r.BeforeNamespace, Name: r.BeforeName, UID: r.BeforeUID, Direction: r.BeforeDirection, Rule: r.BeforeRule,
		Index: r.BeforeIndex, Why: r.BeforeWhy,
	}
	if r.Service != "" {
		var err error
		if e.Asked, err = netip.ParseAddrPort(r.Service); err != nil {
			return nil, false
		}
	}
	return e, true
}
