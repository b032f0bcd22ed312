// Package collect reads flow logs out of the storage of a cloud as they are written, and makes rows
// of them.
//
// It owns which files of a bucket are read, each once, and which are left out and why. It promises
// bounds of files, names and bytes in one round, and of connections at once. A file or record that
// is broken, of another account or from the future is left out alone, and counted; a file that
// could not be fetched is tried again. State remembers what was read; the caller may keep it.
//
// A Collector belongs to one goroutine. Time is passed in.
package collect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/flowlog"
	azurelog "github.com/nephele-io/nephele/internal/cloud/azure/flowlog"
	"github.com/nephele-io/nephele/internal/flows"
)

const (
	// window is how far back files are looked for: flow logs come within minutes, and late ones
	// within hours.
	window = 24 * time.Hour
	// catchUp is how far back files are read of which it is not known whether they were read.
	catchUp = 30 * time.Minute
	// settled is how long after its end a minute is taken for known: the records of one connection
	// come in several files.
	settled = 3 * time.Minute
	// ahead is how far ahead of our clock a record may be.
	ahead = 5 * time.Minute
	// The bounds of one round, and of what is remembered.
	maxNames       = 50_000
	maxFiles       = 500
	maxBytes       = 256 << 20
	maxRecords     = 5_000_000
	maxConnections = 200_000
	maxTries       = 3
	// lateHours is for how many hours files that grow are looked at, maxFolders bounds how many
	// flow logs and hours that are.
	lateHours  = 3
	maxFolders = 10_000
	// maxMissing bounds the flow logs of which it is known what they lack.
	maxMissing = 100
)

// Counts say what became of files and records since the start.
type Counts struct {
	// Files were read, Broken not to their end, and Waiting are those that a round had no room for.
	Files, Broken, Waiting int64
	// Records were read, Bad lines left out. Foreign records are of other accounts, Odd ones of the
	// future or too old. In Lost windows the cloud did not record all. Over records are beyond the
	// bounds, nothing says which way Placeless records went, and Twice records had come before.
	Records, Bad, Foreign, Odd, Lost, Over, Placeless, Twice int64
	// There are how many files of the last listing were written within a day, read or not.
	There int64
}

// Lacking says what a flow log lacks.
type Lacking struct {
	// Log is its ID, or what its files have in place of one.
	Log string
	// Fields are those that would make answers exact, each with what is missed. Useless tells that
	// it has not even those without which no record can be made.
	Fields  []string
	Useless bool
	at      time.Time
}

// Place is where flow logs of an account are.
type Place struct {
	Bucket cloud.Bucket
	// Prefix is what the names begin with before "AWSLogs/".
	Prefix string
	// Owner is the account's number, or the subscription, and Regions those that it is read in.
	Owner   string
	Regions []string
	// Azure tells that it has the files that Network Watcher writes: one for each interface and
	// hour, which grows.
	Azure bool
}

// prefixes returns the prefixes of the files of a day.
func (p *Place) prefixes(day time.Time) (out []string) {
	base := strings.Trim(p.Prefix, "/")
	if base != "" {
		base += "/"
	}
	for _, region := range p.Regions {
		out = append(out,
			fmt.Sprintf("%sAWSLogs/%s/vpcflowlogs/%s/%s/", base, p.Owner, region, day.Format("2006/01/02")),
			fmt.Sprintf("%sAWSLogs/aws-account-id=%s/aws-service=vpcflowlogs/aws-region=%s/%s/", base, p.Owner, region, day.Format("year=2006/month=01/day=02")))
	}
	return out
}

// State is what was read, by a number that stands for the name and content of a file, and when that
// was written. Taken is how many records were taken of files that grow, by their names.
type State struct {
	Read  map[string]time.Time `json:"read"`
	Taken map[string]taken     `json:"taken,omitempty"`
}

type taken struct {
	Records int       `json:"records"`
	Bad     int       `json:"bad"`
	At      time.Time `json:"at"`
}

// Collector reads the flow logs of one place.
type Collector struct {
	Place Place
	state State
	sum   *flows.Summer
	// tries counts the attempts at files that could not be fetched.
	tries  map[string]int
	counts Counts
	// missing is what flow logs lack, by their IDs.
	missing map[string]Lacking
	// known tells that the state is that of a former process.
	known bool
	begun time.Time
	// ahead is how far the clock of the cloud is ahead of ours, in whole minutes.
	ahead time.Duration
	// listed tells that all there was in the last round was listed and read.
	listed bool
}

// New returns a Collector. State is that of a former one, or nil: then only files that were written
// not long before now are read. Own returns the addresses of an interface.
func New(p Place, state []byte, own func(string) []netip.Addr, now time.Time) *Collector {
	c := &Collector{Place: p, sum: flows.NewSummer(own, maxConnections), tries: map[string]int{}, missing: map[string]Lacking{}, begun: now}
	c.known = len(state) > 0 && json.Unmarshal(state, &c.state) == nil && c.state.Read != nil
	if !c.known {
		c.state.Read = map[string]time.Time{}
	}
	if c.state.Taken == nil {
		c.state.Taken = map[string]taken{}
	}
	return c
}

// State returns what is to be kept.
func (c *Collector) State() ([]byte, error) { return json.Marshal(c.state) }

// Counts returns what became of files and records.
func (c *Collector) Counts() Counts {
	out, sum := c.counts, c.sum.Counts()
	out.Placeless, out.Twice, out.Over = int64(sum.Placeless), int64(sum.Twice), out.Over+int64(sum.Over)
	return out
}

// Lacking returns the flow logs that lack fields, by the files that were read within a day, sorted.
func (c *Collector) Lacking() []Lacking {
	return slices.SortedFunc(maps.Values(c.missing), func(a, b Lacking) int { return cmp.Compare(a.Log, b.Log) })
}

// notes what a file shows about the fields of its flow log.
func (c *Collector) notes(o *cloud.StoredObject, absent []string, err error) {
	log := logOf(o.Name)
	l := Lacking{Log: log, Fields: absent, at: o.Changed}
	var missing *flowlog.FieldsError
	if errors.As(err, &missing) {
		l.Fields, l.Useless = missing.Missing, true
	}
	_, known := c.missing[log]
	switch {
	case len(l.Fields) > 0 && (known || len(c.missing) < maxMissing):
		c.missing[log] = l
	case err == nil: // another version of the same name
		delete(c.missing, log)
	}
}

// logOf is the ID of the flow log of a file: ACCOUNT_vpcflowlogs_REGION_ID_TIME_HASH.log.gz.
func logOf(name string) string {
	if words := strings.Split(path.Base(name), "_"); len(words) > 3 {
		return words[3]
	}
	return path.Base(path.Dir(name))
}

// mark is what is remembered of a file that was read. Others may name files in a bucket, so it is
// not to be met twice.
func mark(o *cloud.StoredObject) string {
	sum := sha256.Sum256([]byte(o.Name + "\x00" + o.Tag))
	return hex.EncodeToString(sum[:16])
}

// formerMark is what former releases remember, until they forget the file.
func formerMark(o *cloud.StoredObject) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, o.Name)
	_, _ = io.WriteString(h, "\x00"+o.Tag)
	return strconv.FormatUint(h.Sum64(), 36)
}

// Round reads what is new, and returns the rows of minutes that are over, sorted. Rows come also
// with an error, which says why not everything could be read. Where the clock of the cloud differs
// from ours, files and records are looked at by the cloud's, and rows have our times.
func (c *Collector) Round(ctx context.Context, s cloud.Storage, now time.Time) ([]flows.Row, error) {
	files, err := c.list(ctx, s, now.Add(c.ahead))
	if clock, ok := s.(cloud.Clocked); ok && clock.Ahead() != c.ahead { // the listing has shown it
		c.ahead = clock.Ahead()
		files, err = c.list(ctx, s, now.Add(c.ahead))
	}
	theirs := now.Add(c.ahead)
	if err == nil {
		err = c.readAll(ctx, s, files, theirs)
	}
	c.listed = err == nil && c.counts.Waiting == 0
	for k, at := range c.state.Read {
		if theirs.Sub(at) > window+time.Hour {
			delete(c.state.Read, k)
		}
	}
	maps.DeleteFunc(c.missing, func(_ string, l Lacking) bool { return theirs.Sub(l.at) > window })
	for k, x := range c.state.Taken {
		if theirs.Sub(x.At) > window+time.Hour {
			delete(c.state.Taken, k)
		}
	}
	return c.ours(c.sum.Take(theirs.Add(-settled))), err
}

// Ahead is how far the clock of the cloud was ahead of ours in the last round.
func (c *Collector) Ahead() time.Duration { return c.ahead }

// ours gives rows the times of our clock.
func (c *Collector) ours(rows []flows.Row) []flows.Row {
	if c.ahead != 0 {
		for i := range rows {
			rows[i].Minute = rows[i].Minute.Add(-c.ahead)
		}
	}
	return rows
}

// Rest returns the rows of what was read and is not over yet, for the end of the process.
func (c *Collector) Rest() []flows.Row { return c.ours(c.sum.Take(time.Time{})) }

// list finds the files that were not read, the oldest first.
func (c *Collector) list(ctx context.Context, s cloud.Storage, now time.Time) ([]cloud.StoredObject, error) {
	oldest := now.Add(-window)
	if begun := c.begun.Add(c.ahead - catchUp); !c.known && begun.After(oldest) {
		oldest = begun
	}
	prefixes, err := c.prefixes(ctx, s, now)
	if err != nil {
		return nil, err
	}
	var out []cloud.StoredObject
	names, there := 0, int64(0)
	for _, prefix := range prefixes {
		for page := ""; ; {
			list, next, err := s.Objects(ctx, c.Place.Bucket, prefix, page)
			if err != nil {
				return nil, err
			}
			for _, o := range list {
				if names++; names > maxNames {
					return nil, fmt.Errorf("more than %d files within two days: give the account a bucket or prefix of its own", maxNames)
				}
				if !c.Place.isLog(o.Name) {
					continue
				}
				if now.Sub(o.Changed) <= window {
					there++
				}
				if !c.wasRead(&o) && !o.Changed.Before(oldest) {
					out = append(out, o)
				}
			}
			if page = next; page == "" || len(list) == 0 {
				break
			}
		}
	}
	c.counts.There = there
	slices.SortFunc(out, func(a, b cloud.StoredObject) int {
		return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// prefixes returns the prefixes of the files that may be new.
func (c *Collector) prefixes(ctx context.Context, s cloud.Storage, now time.Time) (out []string, err error) {
	if !c.Place.Azure {
		for day := now.UTC().Add(-window).Truncate(24 * time.Hour); !day.After(now.UTC().Add(ahead)); day = day.Add(24 * time.Hour) {
			out = append(out, c.Place.prefixes(day)...)
		}
		return out, nil
	}
	folders, ok := s.(cloud.FolderLister)
	if !ok {
		return nil, errors.New("nothing here lists the folders of this cloud")
	}
	groups, err := folders.Folders(ctx, c.Place.Bucket, "flowLogResourceID=/")
	if err != nil {
		return nil, err
	}
	hours := lateHours
	if !c.listed {
		hours = int(window / time.Hour)
	}
	for _, g := range groups {
		if !strings.HasPrefix(strings.ToLower(g), "flowlogresourceid=/"+strings.ToLower(c.Place.Owner)+"_") {
			continue // of another subscription
		}
		logs, err := folders.Folders(ctx, c.Place.Bucket, g)
		if err != nil {
			return nil, err
		}
		for _, l := range logs {
			if len(out) >= maxFolders {
				return nil, fmt.Errorf("more than %d flow logs and hours: give them a container of their own", maxFolders)
			}
			for h := range hours {
				out = append(out, l+now.UTC().Add(-time.Duration(h)*time.Hour).Format("y=2006/m=01/d=02/h=15/"))
			}
		}
	}
	return out, nil
}

// isLog reports whether a name is that of a file of a flow log.
func (p *Place) isLog(name string) bool {
	if p.Azure {
		return strings.HasSuffix(name, "/PT1H.json")
	}
	base := path.Base(name)
	return strings.Contains(base, "_vpcflowlogs_") && (strings.HasSuffix(base, ".log.gz") || strings.HasSuffix(base, ".parquet") || strings.HasSuffix(base, ".log"))
}

// readAll reads files as far as a round has room.
func (c *Collector) readAll(ctx context.Context, s cloud.Storage, files []cloud.StoredObject, now time.Time) error {
	left, failed := int64(maxBytes), error(nil)
	c.counts.Waiting = 0
	unread := make(map[string]bool, len(files))
	for i := range files {
		unread[files[i].Name] = true
	}
	maps.DeleteFunc(c.tries, func(name string, _ int) bool { return !unread[name] })
	for i := range files {
		o := &files[i]
		if i >= maxFiles || o.Size > left && i > 0 {
			c.counts.Waiting = int64(len(files) - i)
			break
		}
		left -= o.Size
		if o.Changed.After(now) { // else it would be remembered until then
			o.Changed = now
		}
		if o.Size > cloud.MostObjectBytes {
			c.done(o, false)
			continue
		}
		err := c.read(ctx, s, o, now)
		var away *fetchError
		switch {
		case errors.As(err, &away):
			if ctx.Err() != nil {
				return err
			}
			failed = err
			if c.tries[o.Name]++; c.tries[o.Name] >= maxTries {
				c.done(o, false)
			}
		default:
			c.done(o, err == nil)
		}
	}
	return failed
}

// wasRead reports whether a file is not to be read again.
func (c *Collector) wasRead(o *cloud.StoredObject) bool {
	_, done := c.state.Read[mark(o)]
	if !done {
		_, done = c.state.Read[formerMark(o)]
	}
	return done
}

// done notes that a file is not to be read again.
func (c *Collector) done(o *cloud.StoredObject, whole bool) {
	delete(c.tries, o.Name)
	c.state.Read[mark(o)] = o.Changed
	if c.counts.Files++; !whole {
		c.counts.Broken++
	}
}

// fetchError is that of the storage, and not of what is in a file.
type fetchError struct{ error }

func (e *fetchError) Unwrap() error { return e.error }

// read reads a file, once all of it is here: what was counted cannot be taken back.
func (c *Collector) read(ctx context.Context, s cloud.Storage, o *cloud.StoredObject, now time.Time) error {
	body, err := s.Object(ctx, c.Place.Bucket, o.Name)
	if err != nil {
		return &fetchError{err}
	}
	raw, err := io.ReadAll(io.LimitReader(body, cloud.MostObjectBytes))
	if err = errors.Join(err, body.Close()); err != nil {
		return &fetchError{err}
	}
	var foreign, odd, lost, over, added int64
	read, name, skip, number := flowlog.Read, mark(&cloud.StoredObject{Name: o.Name}), 0, 0
	if c.Place.Azure {
		if former := formerMark(&cloud.StoredObject{Name: o.Name}); c.state.Taken[former] != (taken{}) {
			c.state.Taken[name] = c.state.Taken[former]
			delete(c.state.Taken, former)
		}
		read, skip = azurelog.Read, c.state.Taken[name].Records
	}
	report, err := read(bytes.NewReader(raw), flows.Sink{
		Record: func(r *flows.Record) error {
			if number++; number <= skip {
				return nil
			}
			switch {
			case r.Account != "" && r.Account != c.Place.Owner:
				foreign++
			case r.Start.After(now.Add(ahead)) || now.Sub(r.Start) > window || r.End.Before(r.Start):
				odd++
			case added >= maxRecords:
				over++
			default:
				added++
				if r.Account == "" {
					r.Account = c.Place.Owner
				}
				c.sum.Add(r)
			}
			return nil
		},
		Gap: func(g *flows.Gap) error {
			if g.Lost {
				lost++
			}
			return nil
		},
	})
	if c.Place.Azure {
		before := c.state.Taken[name].Bad
		c.state.Taken[name] = taken{number, report.Bad, o.Changed}
		report.Bad = max(report.Bad-before, 0)
		if errors.Is(err, azurelog.ErrUnfinished) {
			err = nil // it grows
		}
	}
	c.counts.Records += int64(max(number-skip, 0))
	c.counts.Bad += int64(report.Bad)
	c.counts.Foreign, c.counts.Odd, c.counts.Lost, c.counts.Over = c.counts.Foreign+foreign, c.counts.Odd+odd, c.counts.Lost+lost, c.counts.Over+over
	if !c.Place.Azure {
		c.notes(o, report.Lacks, err)
	}
	return err
}
