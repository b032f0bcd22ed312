package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

// dataDir is an open, locked data directory.
type dataDir struct {
	path string
	lock *os.File
}

func (d *dataDir) kubeconfig() string { return filepath.Join(d.path, "kubeconfig") }
func (d *dataDir) pki() string        { return filepath.Join(d.path, "pki") }
func (d *dataDir) etcd() string       { return filepath.Join(d.path, "etcd") }

// unfounded is where the database is while it is made.
func (d *dataDir) unfounded() string { return d.etcd() + ".new" }
func (d *dataDir) logs() string      { return filepath.Join(d.path, "logs") }

// hasDatabase reports whether there is a database already.
func (d *dataDir) hasDatabase() (bool, error) {
	entries, err := os.ReadDir(d.etcd())
	return len(entries) > 0, err
}

// dataFormat is how the data directory is laid out. Whatever an older version could not read, or
// would spoil, needs the next number.
const dataFormat = 1

// minSpace is the free space, in bytes, below which nothing is started: etcd sets 128 MB of its
// log aside at once, and a control plane that cannot write loses nothing but does not work either.
const minSpace = 256 << 20

// errInUse is why a directory cannot be locked.
var errInUse = errors.New("it is in use")

// openDataDir creates what is missing and takes the lock. It fails if less than space bytes are
// free.
func openDataDir(path string, space uint64) (*dataDir, error) {
	bad := func(reason, hint string, err error) error {
		return &InputError{Flag: "--data-dir", Value: path, Reason: reason, Hint: hint, Err: err}
	}
	unusable := func(err error) error {
		const hint = "choose a directory that this user may write to"
		var pe *fs.PathError
		if errors.As(err, &pe) {
			return bad(fmt.Sprintf("cannot write there (%s: %v)", pe.Path, pe.Err), hint, err)
		}
		return bad("cannot write there ("+err.Error()+")", hint, err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, unusable(err)
	}
	d := &dataDir{path: abs}
	for _, dir := range []string{d.path, d.etcd(), d.logs()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, unusable(err)
		}
	}
	// The lock belongs to the open file: the kernel drops it when the process ends, however it
	// ends.
	d.lock, err = os.OpenFile(filepath.Join(d.path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unusable(err)
	}
	if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := d.holder()
		err = errors.Join(err, d.lock.Close())
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, bad("another nephele process"+holder+" is using it", "stop that process, or choose another directory", errors.Join(errInUse, err))
		}
		return nil, unusable(err)
	}
	if err := d.sign(); err != nil {
		return nil, errors.Join(unusable(err), d.lock.Close())
	}
	if newer, err := d.checkFormat(); err != nil {
		return nil, errors.Join(unusable(err), d.lock.Close())
	} else if newer != "" {
		return nil, errors.Join(bad("it was written by a newer version of nephele (data format "+newer+fmt.Sprintf(", this one knows up to %d)", dataFormat),
			"run the newer version, or choose another directory", nil), d.lock.Close())
	}
	var volume syscall.Statfs_t
	if err := syscall.Statfs(d.path, &volume); err != nil {
		return nil, errors.Join(unusable(err), d.lock.Close())
	}
	if free := volume.Bavail * uint64(volume.Bsize); free < space {
		return nil, errors.Join(bad(fmt.Sprintf("only %d MiB are free there, and %d MiB are needed", free>>20, space>>20),
			"free some space, or choose another directory", nil), d.lock.Close())
	}
	return d, nil
}

// checkFormat returns the format of the directory if it is one that this version does not know, and
// notes ours if there is none yet.
func (d *dataDir) checkFormat() (newer string, err error) {
	file := filepath.Join(d.path, "format")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", certs.WriteFile(file, fmt.Appendf(nil, "%d\n", dataFormat), 0o600)
	}
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if n, err := strconv.Atoi(text); err != nil || n > dataFormat {
		return strconv.Quote(text), nil
	}
	return "", nil
}

// sign writes the process id into the lock file, for the error message of the next one. It also
// finds out whether the file system takes data at all.
func (d *dataDir) sign() error {
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	_, err := d.lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

func (d *dataDir) holder() string {
	data, err := os.ReadFile(d.lock.Name())
	if pid := strings.TrimSpace(string(data)); err == nil && pid != "" {
		return " (pid " + pid + ")"
	}
	return ""
}

func (d *dataDir) close() error { return d.lock.Close() }
