package cni

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// maxReserved bounds the files of reserved addresses that are read, and maxNetworks the
	// folders of networks; reservedLimit bounds one of the files.
	maxReserved, maxNetworks = 1 << 14, 64
	reservedLimit            = 512
)

// Reserved is an address that the plugin host-local has given to a container.
type Reserved struct {
	Address   netip.Addr
	Network   string
	Container string
	Since     time.Time
}

// ReadHostLocal reads which addresses the plugin host-local has given: a folder for each network,
// with a file for each address that says whose it is. A folder that is not there has none. What is
// no such file is left out.
func ReadHostLocal(dir string) ([]Reserved, error) {
	networks, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Reserved
	seen := 0
	for _, n := range networks {
		if !n.IsDir() {
			continue
		}
		if seen++; seen > maxNetworks {
			break
		}
		files, err := os.ReadDir(filepath.Join(dir, n.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			a, err := netip.ParseAddr(strings.ReplaceAll(f.Name(), "_", ":")) // as where names have no colon
			if err != nil || a.Zone() != "" || len(out) >= maxReserved {
				continue
			}
			r, ok := readReserved(filepath.Join(dir, n.Name(), f.Name()))
			if !ok {
				continue
			}
			r.Address, r.Network = a.Unmap(), n.Name()
			out = append(out, r)
		}
	}
	return out, nil
}

// readReserved reads the file of an address. One that is just being removed is not there.
func readReserved(path string) (r Reserved, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > reservedLimit {
		return r, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return r, false
	}
	container, _, _ := strings.Cut(string(text), "\n")
	r.Container, r.Since = strings.TrimSpace(container), info.ModTime()
	return r, len(r.Container) > 0 && len(r.Container) <= nameLimit
}
