package tools

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// archiveSource holds the inputs of a tool's archive.
type archiveSource struct {
	programs string // folder of the built programs
	upstream source
	final    string // path of the archive to write
}

// member is one file of an archive.
type member struct {
	name string
	path string
	mode int64
}

// packCNIPlugins writes the tarball like upstream's release workflow: the
// programs, README.md and LICENSE below "./".
func packCNIPlugins(from archiveSource) error {
	entries, err := os.ReadDir(from.programs)
	if err != nil {
		return fmt.Errorf("listing the built plugins: %w", err)
	}
	members := []member{
		{"LICENSE", filepath.Join(from.upstream.Dir, "LICENSE"), 0o644},
		{"README.md", filepath.Join(from.upstream.Dir, "README.md"), 0o644},
	}
	for _, entry := range entries {
		members = append(members, member{entry.Name(), filepath.Join(from.programs, entry.Name()), 0o755})
	}
	released, err := from.upstream.released()
	if err != nil {
		return err
	}
	return writeTarball(from.final, members, released)
}

// packContainerd writes the programs below bin, as in upstream's archive.
func packContainerd(from archiveSource) error {
	entries, err := os.ReadDir(from.programs)
	if err != nil {
		return fmt.Errorf("listing the built programs: %w", err)
	}
	var members []member
	for _, entry := range entries {
		members = append(members, member{"bin/" + entry.Name(), filepath.Join(from.programs, entry.Name()), 0o755})
	}
	released, err := from.upstream.released()
	if err != nil {
		return err
	}
	return writeTarball(from.final, members, released)
}

// KubeBenchBenchmark is the benchmark whose checks are packed with kube-bench.
const KubeBenchBenchmark = "eks-1.7.0"

// packKubeBench writes the program and, below cfg, the checks of one benchmark.
func packKubeBench(from archiveSource) error {
	checks, err := filepath.Glob(filepath.Join(from.upstream.Dir, "cfg", KubeBenchBenchmark, "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the checks: %w", err)
	}
	members := []member{{"kube-bench", filepath.Join(from.programs, "kube-bench"), 0o755}}
	for _, path := range append(checks, filepath.Join(from.upstream.Dir, "cfg", "config.yaml")) {
		name, err := filepath.Rel(from.upstream.Dir, path)
		if err != nil {
			return fmt.Errorf("listing the checks: %w", err)
		}
		members = append(members, member{name, path, 0o644})
	}
	released, err := from.upstream.released()
	if err != nil {
		return err
	}
	return writeTarball(from.final, members, released)
}

// writeTarball writes the members in their order as a gzipped tar. The result
// depends only on their names, modes and contents, and on the one time that all
// members get.
func writeTarball(path string, members []member, at time.Time) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("making the archive: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	packed := gzip.NewWriter(file)
	archive := tar.NewWriter(packed)
	// Upstream's own tarballs have this owner on "./", and only there: root gives
	// /opt/cni/bin to that owner when it unpacks a tarball over that folder.
	// https://github.com/containernetworking/plugins/pull/1054
	const runner = 1001
	root := tar.Header{
		Typeflag: tar.TypeDir, Name: "./", Mode: 0o755, Uid: runner, Gid: runner,
		Uname: "runner", Gname: "docker", ModTime: at, Format: tar.FormatGNU,
	}
	if err := archive.WriteHeader(&root); err != nil {
		return fmt.Errorf("writing the archive's folder: %w", err)
	}
	for _, one := range members {
		if err := one.write(archive, at); err != nil {
			return fmt.Errorf("writing %s into the archive: %w", one.name, err)
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

func (m member) write(archive *tar.Writer, at time.Time) error {
	file, err := os.Open(m.path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := tar.Header{
		Typeflag: tar.TypeReg, Name: "./" + m.name, Size: info.Size(), Mode: m.mode,
		Uname: "root", Gname: "root", ModTime: at, Format: tar.FormatGNU,
	}
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
