package asset

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

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
		body := localFile{file, st.Size()}
		err = (&unpacker{target: d.Target, kinds: map[string]byte{}, arch: arch}).judgeAll(
			&verifier{download: d, body: body, hash: sha256.New(), progress: func(int64, int64) {}})
	}
	if err != nil {
		return fmt.Errorf("locking %s: the file from %s is not what it should be: %w%s", d, d.Place(), err, d.whereElse("; check the mirror %s"))
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

// errNoELF is a file that is no program of Linux.
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
	if elf.Class(head[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(head[elf.EI_DATA]) != elf.ELFDATA2LSB || got != machines[arch] {
		return fmt.Errorf("the program is for %s, not for %s", got, arch)
	}
	return nil
}
