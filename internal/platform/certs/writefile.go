package certs

import (
	"errors"
	"io/fs"
	"os"
)

// WriteFile puts data at path with the given mode so that a reader, also one after a crash, sees
// either what was there before or all of data. It uses path with ".tmp" appended on the way; there
// must be one writer per path.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	tmp := path + ".tmp"
	// One left behind by a killed process may have another mode.
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}
