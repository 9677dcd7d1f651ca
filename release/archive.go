package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// packed is one file of an archive.
type packed struct {
	name    string
	mode    os.FileMode
	content []byte
}

// pack writes an archive with a program, under the name it shall have, and the
// licence. The name decides the form.
func (r *release) pack(archive, name, program string) (err error) {
	files := []packed{{name: name, mode: 0o755}, {name: "LICENSE", mode: 0o644}}
	for i, source := range []string{program, filepath.Join(r.root, "LICENSE")} {
		if files[i].content, err = os.ReadFile(source); err != nil {
			return fmt.Errorf("reading what to pack: %w", err)
		}
	}
	out, err := os.Create(archive)
	if err != nil {
		return fmt.Errorf("making the archive: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	write := writeTarGz
	if strings.HasSuffix(archive, ".zip") {
		write = writeZip
	}
	if err := write(out, files, r.made); err != nil {
		return fmt.Errorf("packing %s: %w", filepath.Base(archive), err)
	}
	return nil
}

func writeZip(out io.Writer, files []packed, made time.Time) error {
	w := zip.NewWriter(out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: made}
		header.SetMode(f.mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.content); err != nil {
			return err
		}
	}
	return w.Close()
}

func writeTarGz(out io.Writer, files []packed, made time.Time) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.content)),
			ModTime: made, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), compressed.Close())
}

// readZip is the one file of that name in a zip, as Packer's installer looks
// for it.
func readZip(archive, name string) (packed, error) {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return packed{}, err
	}
	defer r.Close()
	for _, f := range r.File {
		if f.Name != name {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return packed{}, err
		}
		defer in.Close()
		content, err := io.ReadAll(in)
		return packed{name: f.Name, mode: f.Mode(), content: content}, err
	}
	return packed{}, fmt.Errorf("it holds no file %s", name)
}

// readTarGz is the one file of that name in a compressed tar.
func readTarGz(archive, name string) (packed, error) {
	in, err := os.Open(archive)
	if err != nil {
		return packed{}, err
	}
	defer in.Close()
	plain, err := gzip.NewReader(in)
	if err != nil {
		return packed{}, err
	}
	r := tar.NewReader(plain)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return packed{}, fmt.Errorf("it holds no file %s", name)
		}
		if err != nil {
			return packed{}, err
		}
		if header.Name == name {
			content, err := io.ReadAll(r)
			return packed{name: header.Name, mode: os.FileMode(header.Mode), content: content}, err
		}
	}
}
