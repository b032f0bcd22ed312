package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Every line names the one before it by its hash. The lines of one process are a chain, with
// numbers from 1; the first of them names the last whole line that is in the file by then. So a
// line that is changed, missing, added or moved is found. A process that may write the whole file
// can rewrite it from a line on. The hash of the last line, kept elsewhere, such as in the log,
// proves its end.

// links are the fields of a line that join it to the others. They are the last ones, and Hash,
// which is about all that stands before it, is the very last.
type links struct {
	// Chain is the process, and N the number of the line in it.
	Chain string `json:"chain"`
	N     uint64 `json:"n"`
	// Follows is the chain and number of the line before the first one of a process.
	Follows string `json:"follows,omitempty"`
	// Prev is the hash of the line before; empty if there is none.
	Prev string `json:"prev,omitempty"`
	// Hash is the SHA-256 of this line up to here, with the hash of the line before.
	Hash string `json:"hash,omitempty"`
}

// chain is where a process has come to.
type chain struct {
	name, after, last string
	n                 uint64
}

// seal joins a line to those before it, and returns its text without an end of line. It cannot be
// undone: a line that is not written leaves a gap, and stands in the log.
func (c *chain) seal(l *line) ([]byte, error) {
	l.links = links{Chain: c.name, N: c.n + 1, Prev: c.last}
	if c.n == 0 {
		l.Follows = c.after
	}
	var err error
	if l.Hash, err = l.sum(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	c.n, c.last = l.N, l.Hash
	return text, nil
}

// sum is the hash that a line should have.
func (l line) sum() (string, error) {
	l.Hash = ""
	text, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// at names a line.
func (l *links) at() string { return fmt.Sprintf("%s:%d", l.Chain, l.N) }

// parse reads a line, whose every field must be known.
func parse(text []byte) (line, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return line{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return line{}, errors.New("something follows the object")
	}
	return l, nil
}

// former finds where the chain of the process before this one ended: the last whole line of the
// file, or of the newest of the old ones if the file has none. What cannot be read as a line, such
// as one of a release without chains, is no end of a chain.
func former(file string) (after, last string, err error) {
	names, err := files(file)
	if err != nil {
		return "", "", err
	}
	for _, name := range slices.Backward(names) {
		text, err := lastLine(name)
		if err != nil {
			return "", "", err
		}
		if text == nil {
			continue
		}
		if l, err := parse(text); err == nil && l.Hash != "" {
			return l.at(), l.Hash, nil
		}
		return "", "", nil
	}
	return "", "", nil
}

// files are the old files of a record and then itself, in the order in which they were written.
// Rotation puts the time between the name and its ending.
func files(file string) ([]string, error) {
	dir, base := filepath.Split(file)
	ending := filepath.Ext(base)
	prefix := strings.TrimSuffix(base, ending) + "-"
	entries, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries { // sorted by name, which is by time
		if n := e.Name(); !e.IsDir() && strings.HasPrefix(n, prefix) && strings.HasSuffix(n, ending) && rotated.MatchString(n) {
			out = append(out, filepath.Join(dir, n))
		}
	}
	if _, err := os.Stat(file); err == nil {
		out = append(out, file)
	}
	return out, nil
}

// rotated tells the names of old files.
var rotated = regexp.MustCompile(`-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}\.`)

// maxLine bounds one line. Calls are cut to far less; see maxListed.
const maxLine = 16 << 20

// lastLine is the last line of a file that has an end; nil if there is none.
func lastLine(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for take := int64(64 << 10); ; take *= 4 {
		start := max(0, info.Size()-take)
		tail := make([]byte, info.Size()-start)
		if _, err := f.ReadAt(tail, start); err != nil {
			return nil, err
		}
		end := bytes.LastIndexByte(tail, '\n')
		if end >= 0 {
			if begin := bytes.LastIndexByte(tail[:end], '\n'); begin >= 0 || start == 0 {
				return tail[begin+1 : end], nil
			}
		}
		if start == 0 || take > 2*maxLine {
			return nil, nil
		}
	}
}
