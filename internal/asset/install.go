package asset

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Install fetches a download, verifies it while it streams in, and puts it in
// place. Nothing on the machine changes before the sum is right. It returns the
// entry for the manifest.
func Install(ctx context.Context, h *host.Host, from Source, d Download,
	progress plan.Progress) (manifest.Asset, error) {
	body, sum, err := from.begin(ctx, d)
	if err != nil {
		return manifest.Asset{}, err
	}
	defer body.Close()
	v := &verifier{download: d, body: body, hash: sha256.New(), want: sum, progress: progress}
	var files []manifest.File
	switch d.Kind {
	case Program:
		files, err = installProgram(h, d, v)
	case TarGz:
		files, err = installArchive(h, d, v)
	default:
		err = fmt.Errorf("unknown kind of download %q", d.Kind)
	}
	if err != nil {
		return manifest.Asset{}, err
	}
	record := manifest.Asset{ID: d.ID, Version: d.Version, URL: d.Recorded(), SumFrom: d.sumFrom(), Size: v.done,
		SHA256: sum, Files: files}
	if _, ok := from.(supplied); ok {
		record.FetchedFrom = "Packer host"
		if d.SHA256 == "" {
			record.SumFrom = record.FetchedFrom
		}
	} else if isFile(d.URL) {
		record.FetchedFrom = aFolder
	}
	return record, nil
}

// Source is an origin of downloads: a Fetcher, or the Packer host.
type Source interface {
	// begin opens a download and returns the SHA-256 that it must have. Its errors
	// contain the remedy. The download explains errors of reading the content.
	begin(ctx context.Context, d Download) (body content, sum string, err error)
}

// begin implements Source.
func (f *Fetcher) begin(ctx context.Context, d Download) (content, string, error) {
	sum, err := f.sum(ctx, d)
	if err != nil {
		return content{}, "", err
	}
	body, err := f.open(ctx, d.URL, 0)
	if err != nil {
		return content{}, "", f.explain(ctx, d, d.URL, err)
	}
	return body, sum, nil
}

// checksums is the option that pins an asset's SHA-256.
const checksums = surface.Name("checksums")

// sum is the SHA-256 that the download must have.
func (f *Fetcher) sum(ctx context.Context, d Download) (string, error) {
	if d.SHA256 != "" {
		return d.SHA256, nil
	}
	text, err := f.text(ctx, d.SumURL)
	switch {
	case err == nil:
	case !isMissing(err):
		return "", f.explain(ctx, d, d.SumURL, err)
	default: // the version, or its checksum file alone
		if there, headErr := f.exists(ctx, d.URL); headErr == nil && !there {
			return "", f.explain(ctx, d, d.URL, err)
		}
		return "", surface.Errorf("the checksum file %s is missing: %w; "+
			"nothing is installed without a checksum: add the file, or pin the sum with %s",
			Place(d.SumURL), err, checksums.Key(d.ID))
	}
	sum, err := ParseSum(text, d.SumForm, path.Base(d.Place()))
	if err != nil {
		return "", surface.Errorf("reading the checksum file %s: %w; nothing is installed without a checksum: "+
			"correct the file, or pin the sum with %s",
			Place(d.SumURL), err, checksums.Key(d.ID))
	}
	return sum, nil
}

// mostSumFile is the largest checksum file, in bytes. The longest lists of real
// releases have a few kilobytes.
const mostSumFile = 1 << 20

func (f *Fetcher) text(ctx context.Context, address string) (string, error) {
	body, err := f.openText(ctx, address)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, mostSumFile+1))
	if err == nil && len(text) > mostSumFile {
		err = fmt.Errorf("the file has more than %d bytes", mostSumFile)
	}
	return string(text), err
}

// verifier hashes the bytes that are read from it, and reports progress.
type verifier struct {
	download Download
	body     content
	done     int64 // bytes read
	hash     hash.Hash
	want     string
	progress plan.Progress
	told     int64
}

// mostDownload is the largest download in bytes, ten times the largest real one:
// content goes to a disk before its sum is verified.
const mostDownload = 1 << 30

var errTooLarge = fmt.Errorf("the download has more than %d bytes, which no asset has", mostDownload)

// progressStep is the number of bytes between two progress reports.
const progressStep = 1 << 20

// Read implements io.Reader. Its errors are those of the download.
func (v *verifier) Read(p []byte) (int, error) {
	if max(v.done, v.body.size) > mostDownload {
		return 0, v.download.explain(v.download.URL, errTooLarge)
	}
	n, err := v.body.Read(p)
	v.done += int64(n)
	_, _ = v.hash.Write(p[:n]) // a hash never fails
	if v.done-v.told >= progressStep || errors.Is(err, io.EOF) && v.told < v.done {
		v.told = v.done
		v.progress(v.done, max(v.body.size, 0))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = v.download.explain(v.download.URL, err)
	}
	return n, err
}

// check reads the rest and compares the sums.
func (v *verifier) check() error {
	if _, err := io.Copy(io.Discard, v); err != nil {
		return err
	}
	got := hex.EncodeToString(v.hash.Sum(nil))
	if got == v.want && (v.download.Size == 0 || v.download.Size == v.done) {
		return nil
	}
	d := v.download
	var from, remedy any = "the checksum file", "try again"
	if d.SHA256 != "" {
		from = checksums.Key(d.ID)
		remedy = surface.Words{HCL: "correct the sum or " + string(d.VersionSource),
			Flags: "correct the sum or " + d.VersionSource.Flag()}
	}
	if d.PinnedBy != "" {
		from, remedy = d.PinnedBy, "find out why the file has changed before you update the lock file"
	}
	size := ""
	if d.Size != 0 && d.Size != v.done {
		size = fmt.Sprintf(" with %d bytes", d.Size)
	}
	return surface.Errorf("verifying %s: the %d bytes from %s have the SHA-256 %s, but %s says %s%s; nothing was "+
		"installed; %s%s",
		d, v.done, d.Place(), got, from, v.want, size, remedy, d.whereElse(" or check the mirror %s"))
}

// installProgram puts an executable in place.
func installProgram(h *host.Host, d Download, v *verifier) ([]manifest.File, error) {
	var size int64
	var broken error // an error of the download, which host would report as an error of the file
	err := h.Files.Replace(d.Target, host.Attributes{Mode: programMode}, func(w io.Writer) error {
		if size, broken = io.CopyBuffer(onlyWriter{w}, v, make([]byte, 256<<10)); broken == nil {
			broken = v.check()
		}
		return broken
	})
	if broken != nil {
		err = broken
	}
	if err != nil {
		return nil, explainWrite(err)
	}
	return []manifest.File{{Path: d.Target, Mode: manifest.Mode(programMode), Size: size, SHA256: v.want}}, nil
}

// onlyWriter hides os.File's ReadFrom, whose buffer is too small here.
type onlyWriter struct{ io.Writer }

// Leftover lists the leftovers of a killed Install: the folder into which an
// archive was unpacked, or the temporary files of a program.
func (d Download) Leftover(h *host.Host) ([]string, error) {
	if d.Kind != TarGz {
		return h.Leftovers(d.Target)
	}
	staging := stagingName(d)
	there, err := afero.Exists(h.Files, staging)
	if err != nil {
		return nil, fmt.Errorf("listing the temporary files of an interrupted run: %w", err)
	}
	if !there {
		return nil, nil
	}
	return []string{staging}, nil
}

// ParseSum finds a file's SHA-256 in the text of a checksum file and returns it in
// lower case.
//
// In the Bare form the text is the sum alone. Some publishers add the file's name,
// which must then be the right one. In the Listed form the line of that file
// counts, with or without leading folders and sha256sum's "*" for binary. Different
// sums for one file are an error.
func ParseSum(text string, form SumForm, file string) (string, error) {
	found := ""
	text = withoutSignature(text)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		sum := strings.ToLower(fields[0])
		switch {
		case len(fields) > 2 || !IsSum(sum):
			return "", fmt.Errorf("the line %.100q is not a SHA-256", strings.TrimSpace(line))
		case len(fields) == 1 && form != Bare:
			return "", fmt.Errorf("the line %.100q names no file", strings.TrimSpace(line))
		case len(fields) == 2 && path.Base(strings.TrimPrefix(fields[1], "*")) != file:
			continue
		case found != "" && found != sum:
			return "", fmt.Errorf("the file has two different sums of %s", file)
		}
		found = sum
	}
	if found == "" && strings.TrimSpace(text) == "" {
		return "", errors.New("the file is empty")
	}
	if found == "" {
		return "", fmt.Errorf("the file does not list %s", file)
	}
	return found, nil
}

// withoutSignature removes the signature from a clear-signed text, the form in
// which runc publishes its sums (RFC 9580, section 7). The signature is not
// checked: that would need a trusted key.
func withoutSignature(text string) string {
	const begin, end = "-----BEGIN PGP SIGNED MESSAGE-----", "-----BEGIN PGP SIGNATURE-----"
	plain := strings.ReplaceAll(text, "\r\n", "\n")
	rest, signed := strings.CutPrefix(plain, begin)
	if !signed {
		return text
	}
	_, rest, _ = strings.Cut(rest, "\n\n") // its header names the hash
	rest, _, _ = strings.Cut(rest, end)
	return rest
}

// IsSum says whether s is a SHA-256 in lower-case hexadecimal.
func IsSum(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// judge says whether a verified file is what the asset claims to be: a program for
// the architecture, or an archive that the installation accepts, with such programs.
// The sum does not say so: a mirror's own checksum file matches whatever it serves.
func (d Download) judge(name, arch string) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("reading the cache: %w", err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading the cache: %w", err)
	}
	if d.Kind == Program {
		err = judgeProgram(file, arch)
	} else {
		body := content{file, st.Size()}
		err = (&unpacker{target: d.Target, kinds: map[string]byte{}, arch: arch}).judgeAll(
			&verifier{download: d, body: body, hash: sha256.New(), progress: func(int64, int64) {}})
	}
	if err != nil {
		return fmt.Errorf("locking %s: the file from %s is not what it should be: %w%s", d, d.Place(), err,
			d.whereElse("; check the mirror %s"))
	}
	return nil
}

func (u *unpacker) judgeAll(v *verifier) error {
	if err := u.unpack(v); err != nil {
		return err
	}
	if err := u.checkLinks(); err != nil {
		return err
	}
	if u.programs == 0 {
		return errors.New("the archive has no program")
	}
	return nil
}

// judge judges a file of an archive. Executables that are not ELF are scripts.
func (u *unpacker) judge(head *tar.Header, content io.Reader) error {
	err := judgeProgram(content, u.arch)
	switch {
	case head.Mode&0o111 == 0 || errors.Is(err, errNoELF):
		return nil
	case err != nil:
		return fmt.Errorf("the archive's member %s: %w", quoted(head.Name), err)
	}
	u.programs++
	return nil
}

var errNoELF = errors.New("the file is not an ELF program")

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// judgeProgram reads the head of an ELF program, whose form is
// https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html.
func judgeProgram(from io.Reader, arch string) error {
	head := make([]byte, 20)
	switch _, err := io.ReadFull(from, head); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errNoELF
	case err != nil:
		return err
	case !bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return errNoELF
	}
	got := elf.Machine(binary.LittleEndian.Uint16(head[18:]))
	if elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(head[elf.EI_DATA]) != elf.ELFDATA2LSB ||
		got != machines[arch] {
		return fmt.Errorf("the program is for %s, not for %s", got, arch)
	}
	return nil
}
