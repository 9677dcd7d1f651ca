// Package show has the forms in which eksnode shows text, names and numbers.
//
//   - Printable and its relatives make foreign text safe to print.
//   - ShellWord and ShellQuote quote words of commands.
//   - Nearest and Meant find the known name that a person meant.
//   - Size, Length and Count write numbers as people read them.
//   - Regexp compiles an expression when it is first used.
//
// The package imports no other room. Its name is not text, because variables of that
// name are everywhere.
package show
