package main

import "fmt"

// api is the version of Packer's plugin protocol that the SDK speaks, as
// `describe` prints it and file names carry it. check compares the two.
const api = "x5.0"

// pluginProgram is the plugin's name inside its archive and on disk: Packer
// looks for exactly this.
func (r *release) pluginProgram(t target) string {
	return fmt.Sprintf("%s_v%s_%s_%s_%s%s", pluginName, r.version, api, t.os, t.arch, t.suffix())
}

func (r *release) pluginArchive(t target) string {
	return fmt.Sprintf("%s_v%s_%s_%s_%s.zip", pluginName, r.version, api, t.os, t.arch)
}

func (r *release) pluginArchives(list []target) []string {
	var names []string
	for _, t := range list {
		names = append(names, r.pluginArchive(t))
	}
	return names
}

// commandArchive is the command's; nodes are Linux, and so is the desk it works
// on mounted images from.
func (r *release) commandArchive(arch string) string {
	return fmt.Sprintf("%s_v%s_linux_%s.tar.gz", commandName, r.version, arch)
}

func (r *release) commandArchives() []string {
	var names []string
	for _, arch := range nodeArches() {
		names = append(names, r.commandArchive(arch))
	}
	return names
}

// sumsName is a file of SHA-256 sums. Packer reads the plugin's and takes every
// line for one of the plugin's archives, so the command has its own.
func (r *release) sumsName(of string) string { return fmt.Sprintf("%s_v%s_SHA256SUMS", of, r.version) }
