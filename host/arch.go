package host

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
)

// Arch is the machine's architecture as Go spells it, such as "amd64". For an image
// root or an offline root it is the architecture of /bin/sh, or empty when /bin/sh is not a Linux
// program.
func (h *Host) Arch() string {
	if h.HasSystemd() {
		return runtime.GOARCH
	}
	file, err := h.Files.OpenRegular("/bin/sh")
	if err != nil {
		return ""
	}
	defer file.Close()
	return ProgramArch(file)
}

// ProgramArch is the architecture of a program file for Linux, as Go spells it. It is
// empty for another file, and for an architecture that nodes cannot have.
func ProgramArch(program io.Reader) string {
	var header [20]byte // the ELF header up to e_machine (elf(5))
	if _, err := io.ReadFull(program, header[:]); err != nil || !bytes.HasPrefix(header[:], []byte("\x7fELF")) {
		return ""
	}
	// The values of EM_X86_64 and EM_AARCH64.
	return map[uint16]string{62: "amd64", 183: "arm64"}[binary.LittleEndian.Uint16(header[18:])]
}
