package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// verify looks at a finished release as those who fetch it do: the sums, the
// names inside the archives, and for what the programs were built.
func (r *release) verify(out string, list []target) error {
	errs := []error{
		checkSums(out, r.sumsName(pluginName), r.pluginArchives(list)),
		checkSums(out, r.sumsName(commandName), r.commandArchives()),
	}
	for _, t := range list {
		file, err := readZip(filepath.Join(out, r.pluginArchive(t)), r.pluginProgram(t))
		if err == nil {
			err = builtFor(file, t)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("verifying %s: %w", r.pluginArchive(t), err))
		}
	}
	for _, arch := range nodeArches() {
		file, err := readTarGz(filepath.Join(out, r.commandArchive(arch)), commandName)
		if err == nil {
			err = builtFor(file, target{"linux", arch})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("verifying %s: %w", r.commandArchive(arch), err))
		}
	}
	return errors.Join(append(errs, r.nothingElse(out, list))...)
}

// builtFor checks a program's mode, and that it was built for the target,
// static and without this machine's paths.
func builtFor(file packed, t target) error {
	if file.mode.Perm() != 0o755 {
		return fmt.Errorf("%s has the mode %04o, not 0755", file.name, file.mode.Perm())
	}
	info, err := buildinfo.Read(bytes.NewReader(file.content))
	if err != nil {
		return fmt.Errorf("reading the build information of %s: %w", file.name, err)
	}
	for _, want := range []debug.BuildSetting{
		{Key: "GOOS", Value: t.os}, {Key: "GOARCH", Value: t.arch}, {Key: "-trimpath", Value: "true"}, {Key: "CGO_ENABLED", Value: "0"},
	} {
		if !slices.Contains(info.Settings, want) {
			return fmt.Errorf("%s was not built with %s=%s", file.name, want.Key, want.Value)
		}
	}
	return nil
}

// nothingElse says which files of a release folder nobody asked for.
func (r *release) nothingElse(out string, list []target) error {
	known := append(r.pluginArchives(list), r.commandArchives()...)
	known = append(known, r.sumsName(pluginName), r.sumsName(commandName), "NOTES.md")
	entries, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("listing the release: %w", err)
	}
	var more []string
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			more = append(more, e.Name())
		}
	}
	if more != nil {
		return fmt.Errorf("listing the release: nobody asked for %s", strings.Join(more, ", "))
	}
	return nil
}
