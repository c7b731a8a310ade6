# Read by Redis's suite behind its client. Answers in place of the server what it has no need of: settings of RDB files and
# of how lists are laid out, and functions, which do not exist here. Users are not given commands that do not exist here.

rename ::redis::__dispatch__raw__ ::redis::__dispatch__server__

proc ::redis::__is_of_files {name} {
    expr {[lsearch -exact {sanitize-dump-payload save rdb-key-save-delay} $name] >= 0}
}

proc ::redis::__dispatch__raw__ {id method argv} {
    if {!$::redis::deferred($id) && $::redis::blocking($id)} {
        set first [string tolower [lindex $argv 0]]
        if {[string equal -nocase $method function] && $first eq {flush}} { return OK }
        if {[string equal -nocase $method debug] && $first eq {quicklist-packed-threshold}} { return OK }
        if {[string equal -nocase $method config] && [::redis::__is_of_files [lindex $argv 1]]} {
            if {$first eq {set}} { return OK }
            if {$first eq {get}} { return [list [lindex $argv 1] 0] }
        }
    }
    if {[string equal -nocase $method acl] && [string equal -nocase [lindex $argv 0] setuser]} {
        set argv [lmap rule $argv {expr {$rule in {+eval +publish} ? [continue] : $rule}}]
    }
    uplevel 1 [list ::redis::__dispatch__server__ $id $method $argv]
}
