# Ten questions to a release of commuting data, answered from its public folder in base R.
#
# Usage: Rscript questions.R PUBLIC DRAWS
#
# Base R cannot read Parquet. DRAWS is intervals.parquet as CSV, which `odsynth export PUBLIC --format csv` writes
# (the file ..._intervals_...csv), or any program that reads Parquet. Prints what questions.py prints.

CENTRE <- "03001"; SHORE_1 <- "03003"; SHORE_2 <- "03005"
TOWN <- c("03001000100", "03001000200", "03001000300")
OTHER_STATES <- c("07", "14")
STATION <- c(40.0, -40.0)

given <- commandArgs(trailingOnly = TRUE)
text <- function(file) read.csv(file, colClasses = "character", na.strings = "", encoding = "UTF-8")
draws <- read.csv(given[2], colClasses = c(home = "character", work = "character"), na.strings = "")
columns <- grep("^draw_", names(draws), value = TRUE)
of_table <- function(table) draws[draws$table == table, ]
flows <- of_table("trct to trct")
residents <- of_table("residents of trct by SI")
industries <- of_table("trct to trct by SI")
to_blocks <- of_table("trct to tabblk2010")

blocks <- text(file.path(given[1], "blocks.csv"))
county <- function(tract) blocks$cty[match(tract, blocks$trct)]
state <- function(tract) blocks$st[match(tract, blocks$trct)]
north <- 111.2 * (as.numeric(blocks$latitude) - STATION[1])
east <- 111.2 * (as.numeric(blocks$longitude) - STATION[2]) * cos(STATION[1] * pi / 180)
near <- blocks$tabblk2010[which(sqrt(north^2 + east^2) <= 2)]

answers <- NULL
note <- function(question, estimate, low, high, area = "")
  answers <<- rbind(answers, data.frame(question, area, estimate, low, high))
answer <- function(question, draws, area = "")
  note(question, mean(draws), min(draws), max(draws), area)
total <- function(rows) colSums(rows[columns])

home <- county(flows$home)
work <- county(flows$work)

# A flow between two areas of a level needs no draws: it is a row of flows.csv. So is a number of areas.csv.
pairs <- text(file.path(given[1], "flows.csv"))
pair <- pairs[pairs$level == "cty" & pairs$home == SHORE_1 & pairs$work == CENTRE, ]
note("Live in Shore County 1 and work in Centre County",
     as.numeric(pair$estimate), as.numeric(pair$low), as.numeric(pair$high))

answer("Live and work in the town of three tracts",
       total(flows[flows$home %in% TOWN & flows$work %in% TOWN, ]))

answer("Percent of those who work in Shore County 1 who live there",
       100 * total(flows[home == SHORE_1 & work == SHORE_1, ]) / total(flows[work == SHORE_1, ]))

into <- flows[!state(flows$home) %in% OTHER_STATES & work == SHORE_1, ]
by_home <- rowsum(into[columns], into$home)
for (tract in head(rownames(by_home)[order(-rowMeans(by_home))], 5))
  answer("The five tracts that send most to Shore County 1", unlist(by_home[tract, ]), tract)

answer("Residents of Shore County 1 who work in services (SI03)",
       total(residents[county(residents$home) == SHORE_1 & residents$SI == "SI03", ]))

answer("More into Centre County from Shore County 1 than from Shore County 2",
       total(flows[home == SHORE_1 & work == CENTRE, ]) - total(flows[home == SHORE_2 & work == CENTRE, ]))

answer("Come in from other states", total(flows[state(flows$home) %in% OTHER_STATES, ]))

answer("Live and work in the same tract", total(flows[flows$home == flows$work, ]))

answer("Live in Shore County 1 and work in services (SI03) in Centre County",
       total(industries[county(industries$home) == SHORE_1 & county(industries$work) == CENTRE
                        & industries$SI == "SI03", ]))

answer("Work within 2 km of the station and live in Shore County 1 or 2",
       total(to_blocks[to_blocks$work %in% near & county(to_blocks$home) %in% c(SHORE_1, SHORE_2), ]))

numbers <- c("estimate", "low", "high")
answers[numbers] <- round(answers[numbers], 2)
write.csv(answers, row.names = FALSE)
