package licence

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOf: by their texts; what is not known, or comes together, is not guessed.
func TestOf(t *testing.T) {
	t.Parallel()
	const (
		mit  = "Permission is hereby granted, free of charge, to any person obtaining a copy\nof this ... The above copyright notice and this permission notice shall"
		bsd2 = "Redistribution and use in source and binary forms ... must retain the above copyright notice, this\n list of conditions and the following disclaimer."
	)
	for text, want := range map[string]string{
		mit: "MIT", bsd2: "BSD-2-Clause", bsd2 + " Neither the name of": "BSD-3-Clause", "Apache License\n  Version 2.0, January 2004": "Apache-2.0",
		"Mozilla Public License Version 2.0 ... GNU General Public License ... GNU Lesser General Public License ... terms and conditions": "MPL-2.0",
		"GNU GENERAL PUBLIC LICENSE ... TERMS AND CONDITIONS":                                                                              "GPL",
		"GNU LESSER GENERAL PUBLIC LICENSE ... GNU General Public License":                                                                 "LGPL",
		mit + "\n\n" + bsd2: "BSD-2-Clause AND MIT", "All rights reserved.": Unknown, "": Unknown,
	} {
		if got := Of(text); got != want {
			t.Errorf("%.60q: %s, want %s", text, got, want)
		}
	}
	own, err := OfModule("../..")
	if err != nil || own != "Apache-2.0" {
		t.Errorf("ours is %s, %v", own, err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"LICENSE": mit, "LICENSE.docs": "words", "licence.go": "GNU General Public License terms and conditions"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := OfModule(dir); err != nil || got != "MIT AND unknown" {
		t.Errorf("two files: %s, %v", got, err)
	}
	if got, err := OfModule(t.TempDir()); err != nil || got != Unknown {
		t.Errorf("no file: %s, %v", got, err)
	}
}
