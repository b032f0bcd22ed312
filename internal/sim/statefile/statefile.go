// Package statefile keeps the state of a simulated cloud in a file. What it promises is in Save: a
// crash at any instant leaves a whole state behind. It holds nothing, and its functions may be
// called from any number of goroutines, for different files.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// Save writes the state of a world to a file so that a crash at any instant leaves either the old
// or the new content: to a temporary file beside it, which is synced and then renamed. It may be
// called from a hook of World.OnMutation.
func Save(w *world.World, path string) (err error) {
	data, err := json.MarshalIndent(w.State(), "", " ")
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("save the state to %s: %w", path, errors.Join(err, f.Close(), os.Remove(f.Name())))
		}
	}()
	if _, err := f.Write(append(data, '\n')); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Load reads what Save has written. The error tells a file that is missing (fs.ErrNotExist) from
// one that is not a state.
func Load(path string, o world.Options) (*world.World, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load the state: %w", err)
	}
	var s aws.State
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("load the state: %s is not a saved state: %w", path, err)
	}
	if s.Version == 0 || len(s.Accounts) == 0 && s.Azure == nil {
		return nil, fmt.Errorf("load the state: %s is not a saved state: expected \"version\": %d and accounts", path, aws.StateVersion)
	}
	w, err := world.New(s, o)
	if err != nil {
		return nil, fmt.Errorf("load the state from %s: %w", path, err)
	}
	return w, nil
}
