# A header as Doxygen is to read it: the comment at its top is the file's, one behind a member is that member's, and
# <word> in a comment is a word in brackets, not a tag of HTML.
NR == 1 && /^\/\/ / { top = 1; print "/// @file" }
top && !/^\/\// { top = 0 }
top { sub(/^\/\//, "///") }
!top {
  sub(/; +\/\/ NOLINT.*$/, ";")
  if (!/^ *\/\//) sub(/[;,] +\/\/ /, "& ///< ")
  sub(/\/\/ +\/\/\/< /, "///< ")
}
/\/\/\// {
  at = index($0, "///")
  mark = substr($0, at, 4) == "///<" ? 4 : 3
  text = substr($0, at + mark)
  gsub(/<[a-z_]+>/, "\\&lt;&", text); gsub(/&lt;</, "\\&lt;", text)
  if (text ~ /^   [a-z].*[;{]$/ && text !~ /`/) { sub(/^ +/, "", text); text = "\n/// `" text "`\n///" }  # a line of code
  gsub(/ ::/, " \\::", text)
  $0 = substr($0, 1, at + mark - 1) text
}
{ print }
