package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Images writes an OCI archive with images of the given names. They are made by us so that no
// registry is needed, and all hold the same: agnhost, the other programs of upstream's test Pods,
// and what cases about the network use besides, a shell with the usual commands, curl and nc. An
// image runs agnhost unless it has the name of the server.
func (t Tools) Images(w io.Writer, names ...string) error {
	program, err := os.ReadFile(t.Path(agnhost))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(t.Path(boom))
	if err != nil {
		return err
	}
	cert, err1 := os.ReadFile(filepath.Join(t.Porter, "localhost.crt"))
	key, err2 := os.ReadFile(filepath.Join(t.Porter, "localhost.key"))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var layer bytes.Buffer
	lw := tar.NewWriter(&layer)
	for _, f := range []struct {
		header tar.Header
		data   []byte
	}{
		{tar.Header{Typeflag: tar.TypeReg, Name: "localhost.crt", Mode: 0o644, Size: int64(len(cert))}, cert},
		{tar.Header{Typeflag: tar.TypeReg, Name: "localhost.key", Mode: 0o644, Size: int64(len(key))}, key},
		{tar.Header{Typeflag: tar.TypeReg, Name: agnhost, Mode: 0o755, Size: int64(len(program))}, program},
		{tar.Header{Typeflag: tar.TypeReg, Name: boom, Mode: 0o755, Size: int64(len(second))}, second},
		{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil},
		{tar.Header{Typeflag: tar.TypeDir, Name: "uploads/", Mode: 0o777}, nil},
	} {
		if err := lw.WriteHeader(&f.header); err != nil {
			return err
		}
		if _, err := lw.Write(f.data); err != nil {
			return err
		}
	}
	if err := t.tools(lw); err != nil {
		return err
	}
	if err := lw.Close(); err != nil {
		return err
	}
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := zw.Write(layer.Bytes()); err != nil {
		return err
	}
	if err := zw.Close(); err != nil {
		return err
	}

	blobs := map[string][]byte{}
	add := func(mediaType string, data []byte) object {
		digest := fmt.Sprintf("%x", sha256.Sum256(data))
		blobs["blobs/sha256/"+digest] = data
		return object{"mediaType": mediaType, "digest": "sha256:" + digest, "size": len(data)}
	}
	layered := add("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())
	var index []object
	for _, name := range names {
		entry, arguments := "/"+agnhost, []string{"pause"}
		if strings.Contains(name, boom) {
			entry, arguments = "/"+boom, nil
		}
		config := add("application/vnd.oci.image.config.v1+json", encode(object{
			"architecture": runtime.GOARCH, "os": "linux",
			"config": object{"Entrypoint": []string{entry}, "Cmd": arguments, "Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"}},
			"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
		}))
		manifest := add("application/vnd.oci.image.manifest.v1+json", encode(object{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []object{layered},
		}))
		index = append(index, object{
			"mediaType": manifest["mediaType"], "digest": manifest["digest"], "size": manifest["size"],
			"annotations": object{"io.containerd.image.name": name},
		})
	}
	blobs["oci-layout"] = encode(object{"imageLayoutVersion": "1.0.0"})
	blobs["index.json"] = encode(object{"schemaVersion": 2, "manifests": index})

	out := tar.NewWriter(w)
	for name, data := range blobs {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	return out.Close()
}

// object is a JSON object.
type object = map[string]any

// encode returns v as JSON. What it is called with consists of maps, lists, strings and numbers,
// which can always be encoded.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// commands holds the commands of busybox. Its wget crashes when it is given a time limit.
var commands = []string{"cat", "date", "echo", "grep", "hostname", "ip", "ls", "mkdir", "nslookup", "rm", "seq", "sleep", "test", "timeout", "touch", "true"}

// tools writes the programs of Pods into a layer, without what no one reads there.
func (t Tools) tools(to *tar.Writer) error {
	err := filepath.WalkDir(t.Pods, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(t.Pods, path)
		if err != nil || name == "." {
			return err
		}
		if name == "usr/share" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode().Type() == os.ModeSymlink {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		if h.Name = name; d.IsDir() {
			h.Name += "/"
		}
		if err := to.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			_, err = to.Write(data)
		}
		return err
	})
	if err != nil {
		return err
	}
	links := map[string]string{"usr/bin/nc": "/bin/nc.openbsd", "bin/sh": "dash"} // busybox has an nc of its own, which its shell prefers
	for _, c := range commands {
		links["bin/"+c] = "busybox"
	}
	for name, target := range links {
		if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}); err != nil {
			return err
		}
	}
	return nil
}
