package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// check builds a release of some targets, and has packer install and use it.
func (r *release) check(ctx context.Context, packer string) error {
	folder, err := os.MkdirTemp("", "eksnode-release-check-*")
	if err != nil {
		return fmt.Errorf("making a scratch folder: %w", err)
	}
	defer os.RemoveAll(folder)
	r.say("building release %s", r.version)
	// From a copy, which nobody edits meanwhile.
	sources, out := filepath.Join(folder, "sources"), filepath.Join(folder, "dist")
	if err := r.copySources(ctx, sources); err != nil {
		return err
	}
	r.root = sources
	if err := r.build(ctx, out, checkTargets()); err != nil {
		return err
	}
	r.say("building it again elsewhere")
	if err := r.sameElsewhere(ctx, folder, out); err != nil {
		return err
	}
	program, err := r.unpack(folder, out)
	if err != nil {
		return err
	}
	if err := r.describes(ctx, program); err != nil {
		return err
	}
	if err := r.installs(ctx, folder, packer, program); err != nil {
		return err
	}
	r.say("release %s: archives, sums, description and installation are as they must be", r.version)
	return nil
}

// sameElsewhere builds this machine's own archives once more from a copy of the
// sources in another folder, and compares the sums.
func (r *release) sameElsewhere(ctx context.Context, folder, out string) error {
	copied := filepath.Join(folder, "elsewhere")
	if err := os.CopyFS(copied, os.DirFS(r.root)); err != nil {
		return fmt.Errorf("copying the sources: %w", err)
	}
	scratch, again := filepath.Join(folder, "scratch"), filepath.Join(folder, "again")
	if err := errors.Join(os.Mkdir(scratch, 0o755), os.Mkdir(again, 0o755)); err != nil {
		return fmt.Errorf("making a scratch folder: %w", err)
	}
	if err := r.archives(ctx, copied, scratch, again, []target{own()}); err != nil {
		return err
	}
	for _, archive := range append(r.commandArchives(), r.pluginArchive(own())) {
		first, err := sumOf(filepath.Join(out, archive))
		if err != nil {
			return err
		}
		second, err := sumOf(filepath.Join(again, archive))
		if err != nil {
			return err
		}
		if first != second {
			return fmt.Errorf("building again: %s is %s here and %s when built elsewhere; nobody could verify such a release", archive, first, second)
		}
	}
	return nil
}

// copySources copies what the repository holds, changes included.
func (r *release) copySources(ctx context.Context, to string) error {
	list, err := output(ctx, r.root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return fmt.Errorf("listing the sources: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(r.root, name))
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted but not committed, or a link: no Go source is one
		}
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
		}
		if err != nil {
			return fmt.Errorf("copying the sources: %w", err)
		}
	}
	return nil
}

// unpack takes this machine's plugin out of its archive.
func (r *release) unpack(folder, out string) (string, error) {
	file, err := readZip(filepath.Join(out, r.pluginArchive(own())), r.pluginProgram(own()))
	if err != nil {
		return "", fmt.Errorf("unpacking the plugin: %w", err)
	}
	program := filepath.Join(folder, file.name)
	if err := os.WriteFile(program, file.content, file.mode); err != nil {
		return "", fmt.Errorf("unpacking the plugin: %w", err)
	}
	return program, nil
}

// describes asks the plugin what it is, as Packer does when it loads one.
func (r *release) describes(ctx context.Context, program string) error {
	text, err := output(ctx, filepath.Dir(program), program, "describe")
	if err != nil {
		return fmt.Errorf("asking the plugin what it is: %w", err)
	}
	var is struct {
		Version      string   `json:"version"`
		API          string   `json:"api_version"`
		Provisioners []string `json:"provisioners"`
	}
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		return fmt.Errorf("reading what the plugin says it is: %w", err)
	}
	if is.Version != r.version || is.API != api || len(is.Provisioners) == 0 {
		return fmt.Errorf("asking the plugin what it is: it says %s; expected are the version %s, the protocol %s and provisioners", text, r.version, api)
	}
	return nil
}

// template uses both provisioners of the version that is being checked.
const template = `packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = "= %s"
    }
  }
}

source "null" "machine" {
  ssh_host     = "192.0.2.1"
  ssh_username = "admin"
  ssh_password = "none"
}

build {
  sources = ["source.null.machine"]
  provisioner "eksnode" { kubernetes_version = "1.34.4" }
  provisioner "eksnode-scrub" {}
}
`

// installs has packer install the plugin, find it again without going online,
// and load both provisioners.
func (r *release) installs(ctx context.Context, folder, packer, program string) error {
	home := filepath.Join(folder, "home")
	file := filepath.Join(folder, "check.pkr.hcl")
	err := errors.Join(os.Mkdir(home, 0o755), os.WriteFile(file, fmt.Appendf(nil, template, r.version), 0o644))
	if err != nil {
		return fmt.Errorf("preparing packer: %w", err)
	}
	for _, args := range [][]string{
		{"plugins", "install", "--path", program, "github.com/eksnode/eksnode"},
		{"init", file},
		{"validate", file},
	} {
		cmd := exec.CommandContext(ctx, packer, args...)
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "HOME="+home, "PACKER_CONFIG_DIR="+home, "PACKER_PLUGIN_PATH="+filepath.Join(home, "plugins"), "CHECKPOINT_DISABLE=1")
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("running packer %s: %w\n%s", args[0], err, said.String())
		}
		r.say("packer %s: done", args[0])
	}
	return nil
}
