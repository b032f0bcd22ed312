package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// listExtension is that of lists of plugins. Runtimes also take what has one of the others.
	listExtension = ".conflist"
	// fileLimit bounds a configuration that is read, programLimit the program of the plugin.
	fileLimit, programLimit = 1 << 20, 256 << 20
)

// Entry is how the plugin is configured in a list.
type Entry struct {
	Type            string   `json:"type"`
	Socket          string   `json:"socket"`
	WhenAgentIsAway WhenAway `json:"whenAgentIsAway"`
	// Network tells that the plugin makes the network of Pods, in a list of its own.
	Network bool `json:"network,omitempty"`
}

// ListName is the file of the list of its own. It comes before those that others usually write.
const ListName = "05-nephele.conflist"

// List is the list with which the plugin makes the network of Pods. Runtimes that do not know
// version 1.1 use 1.0.
func List(entry Entry) ([]byte, error) {
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0", "cniVersions": []string{"1.0.0", "1.1.0"}, "name": "nephele", "plugins": []Entry{entry},
	}, "", "  ")
	return append(text, '\n'), err
}

// Chain puts the plugin at the end of a list of plugins, if it is not in it as it should be.
func Chain(list []byte, entry Entry) (out []byte, changed bool, err error) {
	want, err := json.Marshal(entry)
	if err != nil {
		return nil, false, err
	}
	return edit(list, func(plugins []json.RawMessage) ([]json.RawMessage, error) {
		if len(plugins) == 0 {
			return nil, errors.New("it has no plugins")
		}
		at := slices.IndexFunc(plugins, isOurs)
		if at > 0 && same(plugins[at], want) && !slices.ContainsFunc(plugins[at+1:], isOurs) {
			return plugins, nil
		}
		return append(slices.DeleteFunc(slices.Clone(plugins), isOurs), want), nil
	})
}

// Unchain takes the plugin out of a list of plugins.
func Unchain(list []byte) (out []byte, changed bool, err error) {
	return edit(list, func(plugins []json.RawMessage) ([]json.RawMessage, error) {
		return slices.DeleteFunc(slices.Clone(plugins), isOurs), nil
	})
}

// edit changes the plugins of a list and leaves the rest.
func edit(list []byte, change func([]json.RawMessage) ([]json.RawMessage, error)) (out []byte, changed bool, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(list, &fields); err != nil {
		return nil, false, fmt.Errorf("want a list of CNI plugins: %w", err)
	}
	if fields["plugins"] == nil {
		return nil, false, errors.New(`want a list of CNI plugins, with the field "plugins"`)
	}
	var plugins []json.RawMessage
	if err := json.Unmarshal(fields["plugins"], &plugins); err != nil {
		return nil, false, fmt.Errorf("plugins: %w", err)
	}
	now, err := change(plugins)
	if err != nil {
		return nil, false, err
	}
	if slices.EqualFunc(plugins, now, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return list, false, nil
	}
	if fields["plugins"], err = json.Marshal(now); err != nil {
		return nil, false, err
	}
	out, err = json.MarshalIndent(fields, "", "  ")
	return append(out, '\n'), err == nil, err
}

func isOurs(plugin json.RawMessage) bool {
	var p struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(plugin, &p) == nil && p.Type == Type
}

// same reports whether two texts are the same JSON, as far as the order of fields goes.
func same(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	p, err1 := json.Marshal(x)
	q, err2 := json.Marshal(y)
	return err1 == nil && err2 == nil && bytes.Equal(p, q)
}

// Installation is where a runtime looks for plugins.
type Installation struct {
	// ConfDir has the lists of plugins, BinDir their programs.
	ConfDir, BinDir string
	// Program is the file of the plugin that is copied to BinDir.
	Program string
	Entry   Entry
}

// Install brings the program to where the runtime looks for it, and the plugin into the list that
// the runtime uses: the first one by name. It writes nothing where all is as it should be, and
// returns the list.
func (i Installation) Install() (list string, changed bool, err error) {
	copied, err := i.copyProgram()
	if err != nil {
		return "", false, fmt.Errorf("install the CNI plugin: %w", err)
	}
	names, err := configurations(i.ConfDir)
	if err != nil {
		return "", false, fmt.Errorf("chain the CNI plugin: %w", err)
	}
	if len(names) == 0 {
		return "", copied, fmt.Errorf("chain the CNI plugin: %s has no configuration of a CNI plugin yet", i.ConfDir)
	}
	list = filepath.Join(i.ConfDir, names[0])
	changed, err = rewrite(list, func(text []byte) ([]byte, bool, error) { return Chain(text, i.Entry) })
	if err != nil {
		return list, changed, fmt.Errorf("chain the CNI plugin: %w", err)
	}
	return list, changed || copied, nil
}

// Provide brings the program to where the runtime looks for it, and writes the list with which the
// plugin makes the network of Pods. It writes nothing where all is as it should be. It fails if the
// runtime uses another list.
func (i Installation) Provide() (list string, changed bool, err error) {
	copied, err := i.copyProgram()
	if err != nil {
		return "", false, fmt.Errorf("install the CNI plugin: %w", err)
	}
	want, err := List(i.Entry)
	if err != nil {
		return "", copied, fmt.Errorf("write the list of CNI plugins: %w", err)
	}
	list = filepath.Join(i.ConfDir, ListName)
	if there, err := readBounded(list, fileLimit); err != nil || !bytes.Equal(there, want) {
		if err := replace(list, want, 0o600, time.Time{}); err != nil {
			return list, copied, fmt.Errorf("write the list of CNI plugins: %w", err)
		}
		changed = true
	}
	names, err := configurations(i.ConfDir)
	if err == nil && names[0] != ListName {
		err = fmt.Errorf("there are two lists of CNI plugins, and the runtime uses %s, the first one by its name: remove it, and Pods are made by nephele-cni", filepath.Join(i.ConfDir, names[0]))
	}
	return list, changed || copied, err
}

// Remove takes the plugin out of every list of a folder, removes its own, and returns those that
// had it. Its program stays: runtimes may need it to end Pods.
func Remove(confDir string) (lists []string, err error) {
	names, err := configurations(confDir)
	if err != nil {
		return nil, fmt.Errorf("take the CNI plugin out: %w", err)
	}
	var failed []error
	for _, name := range names {
		path := filepath.Join(confDir, name)
		text, err := readBounded(path, fileLimit)
		if err != nil || !bytes.Contains(text, []byte(Type)) {
			failed = append(failed, err)
			continue
		}
		if name == ListName {
			if err = os.Remove(path); err == nil {
				lists = append(lists, path)
			}
			failed = append(failed, err)
			continue
		}
		changed, err := rewrite(path, Unchain)
		if changed {
			lists = append(lists, path)
		}
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return lists, fmt.Errorf("take the CNI plugin out: %w", err)
	}
	return lists, nil
}

// configurations are the files of a folder that runtimes take for configurations, in their order.
func configurations(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == listExtension || ext == ".conf" || ext == ".json") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// rewrite changes a file at once and keeps its mode.
func rewrite(path string, change func([]byte) ([]byte, bool, error)) (bool, error) {
	text, err := readBounded(path, fileLimit)
	if err != nil {
		return false, err
	}
	out, changed, err := change(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if !changed {
		return false, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return true, replace(path, out, info.Mode().Perm(), time.Time{})
}

// copyProgram brings the program to where it belongs, if another one is there or none. It is told
// by size and time, so that it costs nothing to look often.
func (i Installation) copyProgram() (bool, error) {
	own, err := os.Stat(i.Program)
	if err != nil {
		return false, err
	}
	to := filepath.Join(i.BinDir, Type)
	if info, err := os.Stat(to); err == nil && info.Size() == own.Size() && info.ModTime().Equal(own.ModTime()) && info.Mode().Perm() == 0o755 {
		return false, nil
	}
	program, err := readBounded(i.Program, programLimit)
	if err != nil {
		return false, err
	}
	return true, replace(to, program, 0o755, own.ModTime())
}

func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, want up to %d", path, info.Size(), limit)
	}
	return os.ReadFile(path)
}

// replace writes a file so that a reader finds either the former or the new one, whole. Runtimes
// ignore the name that it has meanwhile. It is as old as it is said to be, or new.
func replace(path string, content []byte, mode fs.FileMode, modified time.Time) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+".*.new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil && !modified.IsZero() {
		err = os.Chtimes(f.Name(), modified, modified)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
