package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeSums writes the archives' SHA-256 as sha256sum(1) does.
func writeSums(folder, name string, archives []string) error {
	var text strings.Builder
	for _, archive := range archives {
		sum, err := sumOf(filepath.Join(folder, archive))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, archive)
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing the sums: %w", err)
	}
	return nil
}

// checkSums compares the archives in a folder with a file of sums, which must
// list exactly those.
func checkSums(folder, name string, archives []string) error {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return fmt.Errorf("reading the sums: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != len(archives) {
		return fmt.Errorf("comparing sums: %s lists %d files, not %d", name, len(lines), len(archives))
	}
	for i, archive := range archives {
		sum, err := sumOf(filepath.Join(folder, archive))
		if err != nil {
			return err
		}
		if want := sum + "  " + archive; lines[i] != want {
			return fmt.Errorf("comparing sums: %s says %q, not %q", name, lines[i], want)
		}
	}
	return nil
}

func sumOf(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("summing up: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
